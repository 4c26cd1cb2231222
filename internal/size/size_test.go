package size

import (
	"math"
	"math/big"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"
)

// bytes are rounded up. What an int64 does not hold is refused, and never 0 or negative.
func TestBytes(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "1m": 1, "1500m": 2, "1Gi": 1 << 30, "20G": 20_000_000_000, "1.5Gi": 3 << 29, "7Ei": 7 << 60,
		"9E": 9_000_000_000_000_000_000, "9223372036854775807": math.MaxInt64, "9223372036854775806500m": math.MaxInt64,
		"16Ei": math.MaxInt64, // the API itself takes no more from binary suffixes
	} {
		if got, problem := Bytes(resource.MustParse(text)); problem != nil || got != want {
			t.Errorf("%s: %d, %v, want %d", text, got, problem, want)
		}
	}
	for text, want := range map[string]Problem{
		"20E": {
			"20E is more than 9223372036854775807 bytes (8Ei), the most that a request to a driver can have",
			"Ask for less; perhaps 20G is meant",
		},
		"9223372036854775808": {
			"9223372036854775808 is more than 9223372036854775807 bytes (8Ei), the most that a request to a driver can have",
			"Ask for less",
		},
		"-1Gi": {"-1Gi is negative", "Ask for a size above 0"},
		"-20E": {"-20E is negative", "Ask for a size above 0"},
	} {
		// Its users go on with "." or ";".
		if strings.ContainsAny(want.Fix[len(want.Fix)-1:], ".?!;") {
			t.Errorf("%s: the fix ends with punctuation: %s", text, want.Fix)
		}
		if got, problem := Bytes(resource.MustParse(text)); problem == nil || *problem != want || got != 0 {
			t.Errorf("%s: %d, %+v, want %+v", text, got, problem, want)
		}
	}
}

func TestExactOrder(t *testing.T) {
	order := []string{"-20E", "-1", "0", "1m", "1Gi", "7Ei", "9223372036854775807", "9223372036854775808", "20E", "1e30", "1e10000000"}
	for i, a := range order {
		for j, b := range order {
			want := 0
			if i < j {
				want = -1
			} else if i > j {
				want = 1
			}
			x, y := resource.MustParse(a), resource.MustParse(b)
			if got, exact := Compare(x, y), ExactOf(x).Compare(ExactOf(y)); got != want || exact != want {
				t.Errorf("%s and %s: %d, %d, want %d", a, b, got, exact, want)
			}
		}
	}
}

// FuzzBytes compares with exact arithmetic: the bytes are the least whole number that is not less.
func FuzzBytes(f *testing.F) {
	for _, seed := range []string{"20E", "1m", "9223372036854775807", "-3", "8Ei", "1e19", "0.5", "9.3E", "1n"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		q, err := resource.ParseQuantity(text)
		dec := q.DeepCopy() // AsDec changes its receiver
		if err != nil || len(text) > 40 || max(dec.AsDec().Scale(), -dec.AsDec().Scale()) > 400 {
			t.Skip("not a quantity, or one whose exact value takes long")
		}
		exact, ok := new(big.Rat).SetString(dec.AsDec().String())
		if !ok {
			t.Fatalf("%q has no exact value", text)
		}
		got, problem := Bytes(q)
		fits := exact.Sign() >= 0 && exact.Cmp(new(big.Rat).SetInt64(Limit)) <= 0
		if fits != (problem == nil) {
			t.Fatalf("%q: problem %+v", text, problem)
		}
		if problem != nil {
			return
		}
		below := new(big.Rat).Sub(new(big.Rat).SetInt64(got), big.NewRat(1, 1))
		if exact.Cmp(new(big.Rat).SetInt64(got)) > 0 || exact.Cmp(below) <= 0 {
			t.Fatalf("%q: %d bytes, and it is %s", text, got, exact.FloatString(9))
		}
		if back := Quantity(got); back.Cmp(q) < 0 {
			t.Fatalf("%q: %s is less", text, back.String())
		}
	})
}

// Parse takes the quantities that objects have, and refuses at once those whose arithmetic does not end.
func TestParse(t *testing.T) {
	for text, want := range map[string]int64{
		"0": 0, "5Gi": 5 << 30, "1e3": 1000, "1E3": 1000, "1.5Ki": 1536, "100m": 1, "+7": 7, "20E": Limit, "1e99": Limit, "-3": 0,
	} {
		if got, err := Parse(text); err != nil || Clamp(got) != want {
			t.Errorf("%s: %s, %v, want %d bytes", text, got.String(), err, want)
		}
	}
	for _, text := range []string{
		"", "x", "1GiB", "1e100", "1e2147483000", "1e-2147483000", "1.5e-999", strings.Repeat("9", 50), "1 ", "1e", "1Gi\n",
	} {
		if got, err := Parse(text); err == nil {
			t.Errorf("%q is %s", text, got.String())
		}
	}
}

func TestClampAndSum(t *testing.T) {
	if got := Clamp(resource.MustParse("-1e2147483000")); got != 0 {
		t.Errorf("a negative quantity is %d", got)
	}
	if got := Clamp(resource.MustParse("1e2147483000")); got != Limit {
		t.Errorf("the largest quantity is %d", got)
	}
	for _, tc := range [][3]int64{{1, 2, 3}, {0, Limit, Limit}, {1, Limit, Limit}, {Limit, 1, Limit}, {Limit, Limit, Limit}, {Limit - 1, 1, Limit}} {
		if got := Sum(tc[0], tc[1]); got != tc[2] {
			t.Errorf("%d+%d is %d, want %d", tc[0], tc[1], got, tc[2])
		}
	}
}
