package audit

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"
)

// ServiceAccount is the user name of a service account.
func ServiceAccount(namespace, name string) string {
	return "system:serviceaccount:" + namespace + ":" + name
}

// Request is a kind of request.
type Request struct {
	User     string
	Verb     string
	Resource string // with its subresource: persistentvolumes/status
}

// IsWrite reports whether the request changes something.
func (r Request) IsWrite() bool {
	switch r.Verb {
	case "get", "list", "watch":
		return false
	}
	return true
}

// IsEvent reports whether the request is about events.
func (r Request) IsEvent() bool { return r.Resource == "events" }

// IsDiscovery reports whether the request is for discovery, and not for an object.
func (r Request) IsDiscovery() bool { return strings.HasPrefix(r.Resource, "/") }

// Answers counts how requests of one kind were answered, by HTTP status.
type Answers map[int]int

// All is the number of requests.
func (a Answers) All() int {
	n := 0
	for _, c := range a {
		n += c
	}
	return n
}

// Tally counts requests by kind and answer.
type Tally map[Request]Answers

// By returns the requests of one user.
func (t Tally) By(user string) Tally {
	return t.Where(func(r Request) bool { return r.User == user })
}

// Where returns the requests for which fits returns true.
func (t Tally) Where(fits func(Request) bool) Tally {
	part := Tally{}
	for r, a := range t {
		if fits(r) {
			part[r] = a
		}
	}
	return part
}

// All is the number of requests.
func (t Tally) All() int {
	n := 0
	for _, a := range t {
		n += a.All()
	}
	return n
}

// Answered is the number of requests with one of the answers.
func (t Tally) Answered(codes ...int) int {
	n := 0
	for _, a := range t {
		for _, c := range codes {
			n += a[c]
		}
	}
	return n
}

// line has the fields of an entry that are used.
type line struct {
	Stage string `json:"stage"`
	Verb  string `json:"verb"`
	URI   string `json:"requestURI"`
	User  struct {
		Username string `json:"username"`
	} `json:"user"`
	Object struct {
		Resource    string `json:"resource"`
		Subresource string `json:"subresource"`
		Namespace   string `json:"namespace"`
		Name        string `json:"name"`
	} `json:"objectRef"`
	Response struct {
		Code int `json:"code"`
	} `json:"responseStatus"`
	At time.Time `json:"stageTimestamp"`
}

func (l line) request() Request {
	resource := l.Object.Resource
	if l.Object.Subresource != "" {
		resource += "/" + l.Object.Subresource
	}
	if resource == "" {
		resource, _, _ = strings.Cut(l.URI, "?")
	}
	return Request{User: l.User.Username, Verb: l.Verb, Resource: resource}
}

// longestLine bounds one entry; at the level of metadata they are about a thousand bytes.
const longestLine = 1 << 20

// Count reads a log. A request counts when it was answered in full, so a watch counts when it ends.
func Count(log io.Reader) (Tally, error) {
	tally := Tally{}
	return tally, each(log, func(l line) {
		answers := tally[l.request()]
		if answers == nil {
			answers = Answers{}
			tally[l.request()] = answers
		}
		answers[l.Response.Code]++
	})
}

// each reads the requests of a log that were answered in full.
func each(log io.Reader, see func(line)) error {
	lines := bufio.NewScanner(log)
	lines.Buffer(nil, longestLine)
	for n := 1; lines.Scan(); n++ {
		var l line
		if err := json.Unmarshal(lines.Bytes(), &l); err != nil {
			return fmt.Errorf("audit log, line %d: %w", n, err)
		}
		if l.Stage == "ResponseComplete" {
			see(l)
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("audit log: %w", err)
	}
	return nil
}
