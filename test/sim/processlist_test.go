package sim

import (
	"slices"
	"sync"
	"time"
)

// processList are the processes under test of a run, also those that have ended. It is safe for
// concurrent use.
type processList struct {
	mu      sync.Mutex
	all     []*process
	killed  int       // crashes that happened
	started time.Time // when the last process started, or when the next one is to start
	healed  bool      // broken watches work again, also those of processes that start later
}

// add adds the process that create returns for its number.
func (l *processList) add(create func(number int) *process) *process {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := create(len(l.all) + 1)
	l.all = append(l.all, p)
	l.started = time.Now()
	if l.healed {
		p.heal()
	}
	return p
}

// heal has the broken watches of all processes work again.
func (l *processList) heal() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.healed = true
	for _, p := range l.all {
		p.heal()
	}
}

// breakViews breaks the watches of all processes, as the schedule has it.
func (l *processList) breakViews() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range l.all {
		p.breakViews()
	}
}

// abort ends all processes at once, and no other process follows.
func (l *processList) abort() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range l.all {
		p.dead.Store(true)
		p.cancel()
	}
}

func (l *processList) addKilled() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.killed++
}

// downtime returns how long there is no process after a crash, and whether it is the first crash.
// The run is not quiet before that time is over.
func (l *processList) downtime(s schedule) (down time.Duration, first bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if down, first = s.downFor, l.killed == 1; first && s.alone > 0 {
		down = s.alone
		l.started = time.Now().Add(down)
	}
	return down, first
}

func (l *processList) lastStart() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.started
}

// living returns the processes of a role that have not ended.
func (l *processList) living(r role) (all []*process) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, p := range l.all {
		if p.role == r && !p.isDead() {
			all = append(all, p)
		}
	}
	return all
}

// hasTwoLeaders reports whether two living processes have one role.
func (l *processList) hasTwoLeaders() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	leads := map[role]bool{}
	for _, p := range l.all {
		if p.isDead() {
			continue
		}
		if leads[p.role] {
			return true
		}
		leads[p.role] = true
	}
	return false
}

// hasNewer reports whether a newer process of the same role has started.
func (l *processList) hasNewer(p *process) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(l.all, func(other *process) bool { return other.role == p.role && other.number > p.number })
}
