package size

import (
	"cmp"
	"fmt"
	"math"
	"regexp"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

// Limit is the largest number of bytes that a CSI message and a field of the API can have.
const Limit = math.MaxInt64

var limit = *resource.NewQuantity(Limit, resource.BinarySI)

// Problem says why a quantity is no number of bytes.
type Problem struct {
	Message string // begins with the quantity
	Fix     string
}

// Bytes returns a quantity in bytes. A part of a byte counts as a whole one, as for upstream. For a
// negative quantity, and for one above [Limit], it returns the problem.
func Bytes(q resource.Quantity) (int64, *Problem) {
	if whole, ok := q.AsInt64(); ok && whole >= 0 { // nearly all, without an allocation
		return whole, nil
	}
	switch known := bounded(q); {
	case q.Sign() < 0:
		return 0, &Problem{Message: q.String() + " is negative", Fix: "Ask for a size above 0"}
	case known.Cmp(limit) > 0:
		return 0, &Problem{
			Message: fmt.Sprintf(
				"%s is more than %d bytes (8Ei), the most that a request to a driver can have", q.String(), Limit,
			),
			Fix: "Ask for less" + slip(q.String()),
		}
	}
	return q.Value(), nil
}

// quantity is the text of a quantity whose number has few digits and zeros.
var quantity = regexp.MustCompile(`^[+-]?[0-9.]{1,40}([numkMGTPE]|[KMGTPE]i|[eE][+-]?[0-9]{1,2})?$`)

// Parse returns the quantity of a text that another party wrote. Unlike resource.ParseQuantity it refuses
// exponents of three digits or more: to parse 1e-2147483000, or to add 1 to 1e2147483000, takes hours.
func Parse(text string) (resource.Quantity, error) {
	if !quantity.MatchString(text) {
		return resource.Quantity{}, fmt.Errorf("%q: %w", text, resource.ErrFormatWrong)
	}
	return resource.ParseQuantity(text)
}

// Clamp returns a quantity in bytes: 0 for a negative one, [Limit] for one above it.
func Clamp(q resource.Quantity) int64 {
	switch bytes, problem := Bytes(q); {
	case problem == nil:
		return bytes
	case q.Sign() < 0:
		return 0
	}
	return Limit
}

// Milli returns a quantity in thousandths, as CPUs are counted: 0 for a negative one, [Limit] for one above
// that.
func Milli(q resource.Quantity) int64 {
	switch whole := Clamp(q); {
	case whole == 0:
		return 0
	case whole > Limit/1000:
		return Limit
	}
	return q.MilliValue()
}

// Sum returns a+b of two numbers of bytes that are not negative; [Limit] where the sum is larger.
func Sum(a, b int64) int64 {
	if a > Limit-b {
		return Limit
	}
	return a + b
}

// slip returns what a size in exabytes was probably meant to be: users write 20E for 20G.
func slip(text string) string {
	if number, found := strings.CutSuffix(text, "E"); found {
		return fmt.Sprintf("; perhaps %sG is meant", number)
	}
	return "" // binary suffixes are no problem: the API takes 16Ei for the limit
}

// Quantity returns a number of bytes as the API has it.
func Quantity(bytes int64) resource.Quantity {
	return *resource.NewQuantity(bytes, resource.BinarySI)
}

// Compare returns -1, 0 or 1 for two quantities of any magnitude.
func Compare(a, b resource.Quantity) int {
	a, b = bounded(a), bounded(b)
	return a.Cmp(b)
}

// zeros are more than a size has.
const zeros = 40

// bounded returns the quantity, or ±1e40 in place of one with more zeros: the API server accepts
// 1e10000000, and each comparison with it takes seconds.
func bounded(q resource.Quantity) resource.Quantity {
	if _, ok := q.AsInt64(); ok {
		return q
	}
	exact := q.DeepCopy() // AsDec changes its receiver
	if dec := exact.AsDec(); dec.Scale() >= -zeros || dec.Sign() == 0 {
		return q
	}
	huge := resource.MustParse(fmt.Sprintf("1e%d", zeros))
	if q.Sign() < 0 {
		huge.Neg()
	}
	return huge
}

// Exact is a size that is only compared. It has the order of quantities, not that of bytes in an
// int64, and takes less memory than a quantity.
type Exact struct {
	bytes  int64
	beyond *resource.Quantity // nil unless bytes cannot have it
}

// ExactOf returns a quantity for comparisons, in whole bytes.
func ExactOf(q resource.Quantity) Exact {
	bytes, problem := Bytes(q)
	if problem == nil {
		return Exact{bytes: bytes}
	}
	q = bounded(q)
	return Exact{beyond: &q}
}

// Compare returns -1, 0 or 1.
func (e Exact) Compare(other Exact) int {
	if e.beyond == nil && other.beyond == nil {
		return cmp.Compare(e.bytes, other.bytes)
	}
	a, b := e.quantity(), other.quantity()
	return a.Cmp(b)
}

func (e Exact) quantity() resource.Quantity {
	if e.beyond != nil {
		return *e.beyond
	}
	return Quantity(e.bytes)
}
