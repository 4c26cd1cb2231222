package command

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// Access is how a tool reaches a cluster: where it is, and as whom.
type Access struct {
	// Cluster is the name that errors use.
	Cluster string
	// Conf is the path of the cluster's configuration file.
	Conf string
	// User is the name without "client.".
	User string
	// Key is secret.
	Key Key
}

// Key is a secret that prints as nothing.
type Key struct{ text string }

// NewKey keeps a key.
func NewKey(text string) Key { return Key{text} }

// IsEmpty says that there is none.
func (k Key) IsEmpty() bool { return k.text == "" }

// String shows nothing.
func (k Key) String() string { return "***" }

// GoString shows nothing either.
func (k Key) GoString() string { return "***" }

// redact takes the key out of a text that a tool printed.
func (k Key) redact(text string) string {
	if k.text == "" {
		return text
	}
	return strings.ReplaceAll(text, k.text, "***")
}

// inherited is where the first of exec.Cmd.ExtraFiles appears in the child.
const inherited = "/proc/self/fd/3"

// keyring is the key as a file that exists only as long as a process has it
// open: nothing is left behind by a process that was killed.
func (a Access) keyring() (*os.File, error) {
	return inMemory("keyring", fmt.Sprintf("[client.%s]\n\tkey = %s\n", a.User, a.Key.text))
}

func (a Access) secretFile() (*os.File, error) {
	return inMemory("secret", a.Key.text)
}

func inMemory(name, content string) (*os.File, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("make a file in memory for the %s: %w", name, err)
	}
	file := os.NewFile(uintptr(fd), name)
	if _, err := file.WriteString(content); err != nil {
		file.Close()
		return nil, fmt.Errorf("write the %s: %w", name, err)
	}
	return file, nil
}
