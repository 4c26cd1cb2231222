package scenario

import (
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
)

// Scenario is one file.
type Scenario struct {
	Name   string // the folder's and the file's, without its ending; the namespace in which it is played
	Family string // the file's folder
	Notes  string // the comment at the top
	Lane   string // scenarios of the same lane are played one after another; empty: with all others
	Loose  string // why not the whole outcome is compared but only what the file expects; empty: all of it
	// Random are patterns for lines of upstream's outcome that vary from run to run, in a line
	// "random WHY: PATTERN".
	Random []string
	Steps  []Step
	// Cold is how many of the steps are taken before the controllers start.
	Cold int
}

// Step is one line.
type Step struct {
	Line    int
	Text    string
	Verb    Verb
	Kind    Kind
	Name    string
	Words   []string
	Options []Option
}

// Option is key=value, or a flag whose value is empty.
type Option struct{ Key, Value string }

// Option returns the last value of a key.
func (s Step) Option(key string) (value string, given bool) {
	for _, o := range s.Options {
		if o.Key == key {
			value, given = o.Value, true
		}
	}
	return value, given
}

// Has reports whether an option or a flag is given.
func (s Step) Has(key string) bool {
	_, given := s.Option(key)
	return given
}

// All returns the values of an option that may be given several times.
func (s Step) All(key string) (values []string) {
	for _, o := range s.Options {
		if o.Key == key {
			values = append(values, o.Value)
		}
	}
	return values
}

// Verb is what a step does.
type Verb string

// The verbs. The first group creates an object of the kind of the same name.
const (
	Create    Verb = "create"
	Patch     Verb = "patch"     // patch KIND NAME 'MERGE PATCH'
	Status    Verb = "status"    // status KIND NAME 'MERGE PATCH'
	Delete    Verb = "delete"    // delete KIND NAME [gracefully]
	Provision Verb = "provision" // provision CLAIM VOLUME: what an external provisioner does when it is asked
	Discard   Verb = "discard"   // discard VOLUME: what an external provisioner does with a Released volume
	Wait      Verb = "wait"      // wait KIND NAME CONDITION...
	Expect    Verb = "expect"    // expect KIND NAME CONDITION...: once everything is quiet
	// Answer VOLUME CODE ['MESSAGE'] [method=RPC] [capacity=SIZE] [node] [times=N | always] sets
	// how a scripted CSI driver answers the next calls about a volume. Without any, it answers with
	// success.
	Answer Verb = "answer"
	Settle Verb = "settle" // settle: until nothing happens any more
	Start  Verb = "start"  // start: the controllers start only now
)

// Kind is a kind of object, by its short name.
type Kind string

// The kinds.
const (
	Claim     Kind = "pvc"
	Volume    Kind = "pv"
	Pod       Kind = "pod"
	Class     Kind = "class"
	Attribute Kind = "vac"
	Secret    Kind = "secret"
)

// Kinds are all kinds.
func Kinds() []Kind { return []Kind{Claim, Volume, Pod, Class, Attribute, Secret} }

// LaneShared is for scenarios with objects that affect the whole cluster: a default class, and
// claims and volumes without a class, which match one another.
const LaneShared = "shared"

// Load reads all scenarios below a folder, in the order of their names.
func Load(files fs.FS) (all []Scenario, err error) {
	err = fs.WalkDir(files, ".", func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || path.Ext(file) != ".txt" {
			return err
		}
		text, err := fs.ReadFile(files, file)
		if err != nil {
			return err
		}
		s, err := Parse(string(text))
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		s.Family = path.Dir(file)
		s.Name = s.Family + "-" + strings.TrimSuffix(path.Base(file), ".txt")
		if !namespaceName.MatchString(s.Name) {
			return fmt.Errorf("%s: the name becomes a namespace: use at most 50 of a-z, 0-9 and -", file)
		}
		all = append(all, s)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("scenarios: %w", err)
	}
	return all, distinct(all)
}

var namespaceName = regexp.MustCompile(`^[a-z0-9][a-z0-9-]{0,48}[a-z0-9]$`)

func distinct(all []Scenario) error {
	slices.SortFunc(all, func(a, b Scenario) int { return strings.Compare(a.Name, b.Name) })
	for i := 1; i < len(all); i++ {
		if all[i].Name == all[i-1].Name {
			return fmt.Errorf("scenarios: there are two with the name %s", all[i].Name)
		}
	}
	return nil
}
