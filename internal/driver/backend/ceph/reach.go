package ceph

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/go-logr/logr"

	"github.com/purser-csi/purser/internal/driver/backend"
	"github.com/purser-csi/purser/internal/driver/backend/ceph/command"
	"github.com/purser-csi/purser/internal/driver/backend/ceph/handle"
	"github.com/purser-csi/purser/internal/driver/durable"
	"github.com/purser-csi/purser/internal/driver/fault"
)

// reach knows how to connect to clusters, and as which user. Requests carry users in their secrets.
// Users whom a pool accepted are kept for requests without secrets, such as listing. Their keys are
// only in memory, their names also on disk: after a restart, a key that comes with a request for
// one pool is used for all other pools of that user.
type reach struct {
	confDir, placesDir string

	mutex sync.Mutex
	// users are those of each place, the last one first.
	users map[handle.Place][]string
	keys  map[account]command.Key
}

type user struct {
	name string
	key  command.Key
}

// account is a user of a cluster.
type account struct{ cluster, name string }

func newReach(confDir, placesDir string) *reach {
	return &reach{
		confDir:   confDir,
		placesDir: placesDir,
		users:     map[handle.Place][]string{},
		keys:      map[account]command.Key{},
	}
}

const confSuffix = ".conf"

// check says whether there is any cluster.
func (r *reach) check() error {
	entries, err := os.ReadDir(r.confDir)
	if err != nil {
		return fault.Unready.Errorf("folder of cluster configurations: %w", err)
	}
	for _, entry := range entries {
		if strings.HasSuffix(entry.Name(), confSuffix) {
			return nil
		}
	}
	return fault.Unready.Errorf(
		"folder of cluster configurations %s: no file <cluster>%s; put one there for each cluster, with at least its mon host",
		r.confDir,
		confSuffix,
	)
}

// access is how the user of a request does something at a place. The name of
// the cluster was checked: it is one component of a path.
func (r *reach) access(ctx context.Context, p handle.Place) (command.Access, error) {
	conf := filepath.Join(r.confDir, p.Cluster+confSuffix)
	if _, err := os.Stat(conf); err != nil {
		return command.Access{}, fault.Unready.Errorf(
			"cluster %q is not known: %w; put its configuration there, with at least its mon host",
			p.Cluster,
			err,
		)
	}
	u, err := userOf(backend.SecretsOf(ctx))
	if err != nil {
		return command.Access{}, err
	}
	if u.name != "" {
		err = r.note(p)
	} else {
		u, err = r.lastUser(p)
	}
	if err != nil {
		return command.Access{}, err
	}
	return command.Access{Cluster: p.Cluster, Conf: conf, User: u.name, Key: u.key}, nil
}

var (
	userName = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9._-]{0,63}$`)
	keyText  = regexp.MustCompile(`^[a-zA-Z0-9+/]{16,128}={0,2}$`)
)

// userOf reads the secrets of a request; the zero user when there are none. The keys admin* are
// those of other drivers.
func userOf(s backend.Secrets) (user, error) {
	name, key := s.Get("userID"), s.Get("userKey")
	if name == "" && key == "" {
		name, key = s.Get("adminID"), s.Get("adminKey")
	}
	name, key = strings.TrimPrefix(strings.TrimSpace(name), "client."), strings.TrimSpace(key)
	switch {
	case name == "" && key == "" && len(s.Keys()) == 0:
		return user{}, nil
	case name == "" || key == "":
		return user{}, fault.Invalid.Errorf("secrets: there are %q, and userID and userKey are needed", s.Keys())
	case !userName.MatchString(name):
		return user{}, fault.Invalid.Errorf(
			"secrets: userID must be the name of a Ceph user without \"client.\": letters, digits, dots, dashes and underscores",
		)
	case !keyText.MatchString(key):
		return user{}, fault.Invalid.Errorf("secrets: userKey is no key; `ceph auth get-key client.%s` prints it", name)
	}
	return user{name: name, key: command.NewKey(key)}, nil
}

// lastUser is for a request without secrets.
func (r *reach) lastUser(p handle.Place) (user, error) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	names := r.usersOf(p)
	for _, name := range names {
		if key, has := r.keys[account{p.Cluster, name}]; has {
			return user{name: name, key: key}, nil
		}
	}
	who := "any user"
	if len(names) > 0 {
		who = "user " + strings.Join(names, ", ")
	}
	return user{}, fault.Unready.Errorf(
		"%s: the request has no secrets, and there was none with those of %s since the driver started; name a secret with userID and userKey in the class",
		p,
		who,
	)
}

// usersOf begins with what is on disk of an earlier start.
func (r *reach) usersOf(p handle.Place) []string {
	names, known := r.users[p]
	if known {
		return names
	}
	content, err := os.ReadFile(r.noteOf(p))
	if err != nil {
		return nil
	}
	for name := range strings.FieldsSeq(string(content)) {
		if userName.MatchString(name) {
			names = append(names, name)
		}
	}
	return names
}

func (r *reach) noteOf(p handle.Place) string { return filepath.Join(r.placesDir, p.Text()) }

// note keeps a place on disk, before anything is made there.
func (r *reach) note(p handle.Place) error {
	file, err := os.OpenFile(r.noteOf(p), os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		err = file.Close()
	}
	if err != nil {
		return fault.Internal.Errorf("note that there are volumes in %s: %w", p, err)
	}
	return nil
}

// remember keeps a user whom a place accepted. Only a new name is written, so that users who
// alternate, such as those of two secrets, cause no writes.
func (r *reach) remember(p handle.Place, u user) error {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	r.keys[account{p.Cluster, u.name}] = u.key
	before := r.usersOf(p)
	names := append(
		[]string{u.name},
		slices.DeleteFunc(slices.Clone(before), func(name string) bool { return name == u.name })...)
	r.users[p] = names
	if len(names) == len(before) {
		return nil
	}
	if err := durable.WriteFile(r.noteOf(p), r.placesDir, []byte(strings.Join(names, "\n")+"\n")); err != nil {
		r.users[p] = before
		return fault.Internal.Errorf("note who uses %s: %w", p, err)
	}
	return nil
}

// tools are a command.Runner.
type tools interface {
	Run(context.Context, command.Call) ([]byte, error)
}

// witness runs tools, and records which users the cluster accepts. An answer that an object does
// not exist also shows that the user was accepted. A refused user must not replace an accepted one.
type witness struct {
	tools
	reach *reach
	place handle.Place
}

// Run implements the Tools of the packages that keep volumes.
func (w witness) Run(ctx context.Context, c command.Call) ([]byte, error) {
	out, err := w.tools.Run(ctx, c)
	if err == nil || fault.NotFound.Is(err) {
		if noting := w.reach.remember(w.place, user{name: c.Access.User, key: c.Access.Key}); noting != nil {
			logr.FromContextOrDiscard(ctx).
				Error(noting, "Requests without secrets will not know this user after a restart", "user", c.Access.User)
		}
	}
	return out, err
}

// places returns all places with volumes, sorted.
func (r *reach) places() (all []handle.Place, err error) {
	entries, err := os.ReadDir(r.placesDir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fault.Internal.Errorf("list where volumes are: %w", err)
	}
	for _, entry := range entries {
		if p, err := handle.ParsePlace(entry.Name()); err == nil {
			all = append(all, p)
		}
	}
	slices.SortFunc(all, func(a, b handle.Place) int { return strings.Compare(a.Text(), b.Text()) })
	return all, nil
}
