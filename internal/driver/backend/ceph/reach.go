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

	"github.com/purser-csi/purser/internal/driver/backend"
	"github.com/purser-csi/purser/internal/driver/backend/ceph/command"
	"github.com/purser-csi/purser/internal/driver/backend/ceph/handle"
	"github.com/purser-csi/purser/internal/driver/fault"
)

// reach knows how clusters are reached, and as whom. Users come with requests;
// the last one of each place is remembered in memory for requests that carry
// none, such as listing.
type reach struct {
	confDir, placesDir string

	mutex sync.Mutex
	users map[handle.Place]user
}

type user struct {
	name string
	key  command.Key
}

func newReach(confDir, placesDir string) *reach {
	return &reach{confDir: confDir, placesDir: placesDir, users: map[handle.Place]user{}}
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
	return fault.Unready.Errorf("folder of cluster configurations %s: no file <cluster>%s; put one there for each cluster, with at least its mon host", r.confDir, confSuffix)
}

// access is how the user of a request does something at a place. The name of
// the cluster was checked: it is one component of a path.
func (r *reach) access(ctx context.Context, p handle.Place) (command.Access, error) {
	conf := filepath.Join(r.confDir, p.Cluster+confSuffix)
	if _, err := os.Stat(conf); err != nil {
		return command.Access{}, fault.Unready.Errorf("cluster %q is not known: %w; put its configuration there, with at least its mon host", p.Cluster, err)
	}
	u, err := userOf(backend.SecretsOf(ctx))
	if err != nil {
		return command.Access{}, err
	}
	if u.name == "" {
		u = r.lastUser(p)
	} else if err := r.remember(p, u); err != nil {
		return command.Access{}, err
	}
	if u.name == "" {
		return command.Access{}, fault.Unready.Errorf("%s: the request has no secrets, and there was none with some since the driver started; name a secret with userID and userKey in the class", p)
	}
	return command.Access{Cluster: p.Cluster, Conf: conf, User: u.name, Key: u.key}, nil
}

var (
	userName = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9._-]{0,63}$`)
	keyText  = regexp.MustCompile(`^[a-zA-Z0-9+/]{16,128}={0,2}$`)
)

// userOf reads the secrets of a request; nobody when there are none. The words
// admin* are those of other drivers.
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
		return user{}, fault.Invalid.Errorf("secrets: userID must be the name of a Ceph user without \"client.\": letters, digits, dots, dashes and underscores")
	case !keyText.MatchString(key):
		return user{}, fault.Invalid.Errorf("secrets: userKey is no key; `ceph auth get-key client.%s` prints it", name)
	}
	return user{name: name, key: command.NewKey(key)}, nil
}

func (r *reach) lastUser(p handle.Place) user {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	return r.users[p]
}

// remember keeps the user in memory, and the place on disk.
func (r *reach) remember(p handle.Place, u user) error {
	r.mutex.Lock()
	_, known := r.users[p]
	r.users[p] = u
	r.mutex.Unlock()
	if known {
		return nil
	}
	file, err := os.OpenFile(filepath.Join(r.placesDir, p.Text()), os.O_CREATE|os.O_WRONLY, 0o600)
	if err == nil {
		err = file.Close()
	}
	if err != nil {
		return fault.Internal.Errorf("note that there are volumes in %s: %w", p, err)
	}
	return nil
}

// places are all where volumes were seen, in order.
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
