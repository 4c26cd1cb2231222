package reconcile

import (
	"time"

	"k8s.io/client-go/util/workqueue"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
)

// NewQueue returns the work queue of client-go with the metrics of controller-runtime, for
// controller.TypedOptions.NewQueue. Its metrics are updated less often than those of other queues,
// which update them twice a second: for eight empty queues that was most of the processor time of an
// idle process.
func NewQueue[K comparable](
	name string, limiter workqueue.TypedRateLimiter[K],
) workqueue.TypedRateLimitingInterface[K] {
	return workqueue.NewTypedRateLimitingQueueWithConfig(
		limiter, workqueue.TypedRateLimitingQueueConfig[K]{Name: name, Clock: calm{clock.RealClock{}}},
	)
}

// calm is a clock whose tickers tick no more often than metrics are read.
type calm struct{ clock.WithTicker }

// lookEvery is the maximum age of unfinished_work_seconds and longest_running_processor_seconds.
const lookEvery = 15 * time.Second

// NewTicker implements clock.WithTicker.
func (c calm) NewTicker(d time.Duration) clock.Ticker {
	return c.WithTicker.NewTicker(max(d, lookEvery))
}

// NewPriorityQueue returns a priority queue, for [Registration.NewQueue]. Keys with a higher priority
// come first, and a key is in the queue once, however often and with whatever delays it is added. It
// updates its metrics twice a second even when it is empty, so only controllers that a flag enables
// use it.
func NewPriorityQueue[K comparable](
	name string, limiter workqueue.TypedRateLimiter[K],
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
