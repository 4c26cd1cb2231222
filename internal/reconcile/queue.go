package reconcile

import (
	"time"

	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
)

// NewQueue is for controller.TypedOptions.NewQueue: the work queue of client-go, with the metrics
// of controller-runtime and without its haste. Each queue, that of controller-runtime too, looks
// twice a second at how long its workers have been busy; the wake-ups of eight queues that nothing
// is in were most of what an idle process cost.
func NewQueue[K comparable](
	name string,
	limiter workqueue.TypedRateLimiter[K],
) workqueue.TypedRateLimitingInterface[K] {
	return workqueue.NewTypedRateLimitingQueueWithConfig(
		limiter,
		workqueue.TypedRateLimitingQueueConfig[K]{Name: name, Clock: calm{clock.RealClock{}}},
	)
}

// calm is the time, except that tickers tick no more often than metrics are read.
type calm struct{ clock.WithTicker }

// lookEvery is how old unfinished_work_seconds and longest_running_processor_seconds may be.
const lookEvery = 15 * time.Second

// NewTicker implements clock.WithTicker.
func (c calm) NewTicker(d time.Duration) clock.Ticker {
	return c.WithTicker.NewTicker(max(d, lookEvery))
}

// NewPriorityQueue is for [Registration.NewQueue]. Keys with a higher priority come first, and each
// key waits once, however often and with whatever delays it is added. It wakes up twice a second
// even when it is empty, so it is for controllers that a flag switches on.
func NewPriorityQueue[K comparable](
	name string,
	limiter workqueue.TypedRateLimiter[K],
) workqueue.TypedRateLimitingInterface[K] {
	return priorityqueue.New(name, func(o *priorityqueue.Opts[K]) { o.RateLimiter = limiter })
}

// AddWithPriority adds keys to a queue of [NewPriorityQueue] after a delay. Another queue ignores
// the priority.
func AddWithPriority[K comparable](q Queue[K], priority int, after time.Duration, keys ...K) {
	if ordered, ok := q.(priorityqueue.PriorityQueue[K]); ok {
		ordered.AddWithOpts(priorityqueue.AddOpts{Priority: &priority, After: after}, keys...)
		return
	}
	for _, key := range keys {
		q.AddAfter(key, after)
	}
}
