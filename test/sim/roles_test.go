package sim

import (
	"time"
)

// start begins a process of ours, and a new one whenever that ends on its own.
func (w *world) start(r role) {
	p := w.processes.add(func(number int) *process { return newProcess(w, number, r) })
	w.log("process %d starts: %s", p.number, r)
	p.run()
}

// restart begins a process after a pause, in which the user may act.
func (w *world) restart(r role) {
	down, first := w.processes.downtime(w.schedule)
	go func() {
		time.Sleep(down / 2)
		if w.schedule.deleteWhileDown {
			w.deleteClaims()
		}
		time.Sleep(down/2 + 17*time.Microsecond)
		if w.ctx.Err() == nil {
			former := w.processes.living(r)
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
