package fuzzing

import (
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/purser-csi/purser/internal/size"
)

// Reader reads choices from the bytes of a fuzz input, one byte each. At the end of the input each choice
// is the sparse one: false, zero, empty.
type Reader struct {
	bytes []byte
	words []string
}

// New returns a reader whose texts are among the words: those that the rules look for, and odd ones.
func New(input []byte, words ...string) *Reader { return &Reader{input, words} }

// Byte returns the next byte.
func (r *Reader) Byte() byte {
	if len(r.bytes) == 0 {
		return 0
	}
	b := r.bytes[0]
	r.bytes = r.bytes[1:]
	return b
}

// Bool returns the next choice of two.
func (r *Reader) Bool() bool { return r.Byte()%2 == 1 }

// Seldom is true for one byte of seven.
func (r *Reader) Seldom() bool { return r.Byte()%7 == 1 }

// Text returns one of the words, the first one at the end of the input.
func (r *Reader) Text() string { return r.words[int(r.Byte())%len(r.words)] }

// MaybeText returns nil or one of the words.
func (r *Reader) MaybeText() *string {
	if !r.Bool() {
		return nil
	}
	return new(r.Text())
}

// Texts returns up to three words.
func (r *Reader) Texts() (out []string) {
	for range r.Byte() % 4 {
		out = append(out, r.Text())
	}
	return out
}

// Pairs returns a map of up to four words; nil for none.
func (r *Reader) Pairs() map[string]string {
	var out map[string]string
	for range r.Byte() % 5 {
		if out == nil {
			out = map[string]string{}
		}
		out[r.Text()] = r.Text()
	}
	return out
}

// Quantity returns a quantity of any magnitude and sign; sometimes one beyond 63 bits.
func (r *Reader) Quantity() resource.Quantity {
	if r.Seldom() {
		return resource.MustParse("20E")
	}
	return size.Quantity(int64(int8(r.Byte())) << (r.Byte() % 60))
}

// Time returns a time of the first minutes of the epoch.
func (r *Reader) Time() metav1.Time { return metav1.NewTime(time.Unix(int64(r.Byte())*10, 0)) }

// MaybeTime returns nil, the zero time or another one.
func (r *Reader) MaybeTime() *metav1.Time {
	if !r.Bool() {
		return nil
	}
	if r.Bool() {
		return &metav1.Time{}
	}
	return new(r.Time())
}

// Meta returns the metadata of an object.
func (r *Reader) Meta() metav1.ObjectMeta {
	m := metav1.ObjectMeta{
		Namespace: r.Text(), Name: r.Text(), UID: types.UID(r.Text()), Annotations: r.Pairs(), Finalizers: r.Texts(),
		DeletionTimestamp: r.MaybeTime(),
	}
	if r.Seldom() {
		m.OwnerReferences = []metav1.OwnerReference{{Kind: r.Text(), Name: r.Text()}}
	}
	return m
}
