package sim

import (
	"time"
)

// start begins a process of ours, and a new one whenever that ends on its own.
func (w *world) start(r role) {
	w.mu.Lock()
	p := newProcess(w, len(w.processes)+1, r)
	w.processes = append(w.processes, p)
	w.started = time.Now()
	if w.healed {
		p.heal()
	}
	w.mu.Unlock()
	w.log("process %d starts: %s", p.number, r)
	p.run()
}

// restart begins a process after a pause, in which the user may act.
func (w *world) restart(r role) {
	down, first := w.pause()
	go func() {
		time.Sleep(down / 2)
		if w.schedule.deleteWhileDown {
			w.deleteClaims()
		}
		time.Sleep(down/2 + 17*time.Microsecond)
		if w.ctx.Err() == nil {
			former := w.living(r)
			if first && w.schedule.alone > 0 {
				w.keepUnclaimed()
			}
			w.start(r)
			if first && w.schedule.joins {
				w.join()
			}
			w.replaced(former...)
		}
	}()
}

// pause is how long there is no process, and whether it is the first time. Nothing is quiet before
// it is over.
func (w *world) pause() (down time.Duration, first bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if down, first = w.schedule.downFor, w.killed == 1; first && w.schedule.alone > 0 {
		down = w.schedule.alone
		w.started = time.Now().Add(down)
	}
	return down, first
}

// living are the processes of a role that have not ended.
func (w *world) living(r role) (all []*process) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range w.processes {
		if p.role == r && !p.isDead() {
			all = append(all, p)
		}
	}
	return all
}

// replaced has the processes learn that another one leads, at the latest by their lease.
func (w *world) replaced(former ...*process) {
	time.Sleep(15 * time.Second)
	for _, p := range former {
		p.stop("its lease is lost")
	}
}

// rival starts a second leader beside the first, which learns of it by its journal, or by its lease
// in the end.
func (w *world) rival(former *process) {
	time.Sleep(33 * time.Microsecond)
	w.start(former.role)
	w.replaced(former)
}
