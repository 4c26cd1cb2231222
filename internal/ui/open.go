package ui

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"path"
	"time"
)

const (
	// mostOfUpload bounds the files that are opened at once. They are in memory.
	mostOfUpload = 256 << 20
	// mostOpened bounds how many opened files are kept. The oldest is closed for the next one.
	mostOpened = 4
)

// openedFile is the state of files that a user has opened.
type openedFile struct {
	id    string
	state *State
}

// file returns the state of an opened file; nil if it is not open.
func (s *Server) file(id string) *State {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range s.opened {
		if f.id == id {
			return f.state
		}
	}
	return nil
}

func (s *Server) openPage(w http.ResponseWriter, r *http.Request) {
	s.write(w, r, http.StatusOK, page{Title: "Open a file", Body: openBody{}, Time: time.Now()})
}

// open reads the files of a form, and leads to their board.
func (s *Server) open(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, mostOfUpload)
	files, err := uploaded(r)
	var state *State
	if err == nil {
		state, err = s.Open(files)
	}
	if err != nil {
		s.fail(w, r, http.StatusBadRequest, fmt.Errorf("the file cannot be read: %w", err))
		return
	}
	id := rand.Text()
	s.mu.Lock()
	s.opened = append(s.opened, openedFile{id, state})
	if len(s.opened) > mostOpened {
		s.opened = s.opened[1:]
	}
	s.mu.Unlock()
	http.Redirect(w, r, "/f/"+id+"/board", http.StatusSeeOther)
}

// uploaded returns the files of a form by their names.
func uploaded(r *http.Request) (map[string][]byte, error) {
	parts, err := r.MultipartReader()
	if err != nil {
		return nil, err
	}
	files := map[string][]byte{}
	for {
		part, err := parts.NextPart()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		if err := addPart(files, part); err != nil {
			return nil, err
		}
	}
	if len(files) == 0 {
		return nil, errors.New("no file was chosen")
	}
	return files, nil
}

func addPart(files map[string][]byte, part *multipart.Part) error {
	defer part.Close()
	text, err := io.ReadAll(part)
	if err == nil && part.FileName() != "" && len(text) > 0 {
		files[path.Base(part.FileName())] = text
	}
	return err
}
