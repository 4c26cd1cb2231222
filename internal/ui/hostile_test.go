package ui

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	explain "github.com/purser-csi/purser/internal/explain/rules"
	"github.com/purser-csi/purser/internal/verdict"
)

// filler sets every field of a value: texts to what text returns, flags to flag, lists to two
// elements. It leaves out the fields that the program itself computes as a text for an attribute.
type filler struct {
	text func(n int) string
	flag bool
	n    int
}

// kindsOfFiller are kinds with a page, and one without.
var kindsOfFiller = []explain.Kind{explain.Claim, "Ship", explain.Node}

func (f *filler) fill(v reflect.Value, depth int) {
	f.n++
	switch value := v.Addr().Interface().(type) {
	case *time.Time:
		*value = noon.Add(time.Duration(f.n) * time.Second)
		return
	case *explain.Kind:
		*value = kindsOfFiller[f.n%len(kindsOfFiller)]
		return
	case *explain.Actor:
		*value = actors[f.n%len(actors)]
		return
	case *explain.State:
		*value = []explain.State{"stuck", "well", explain.Unknown}[f.n%3]
		return
	case *verdict.Reason:
		*value = []verdict.Reason{verdict.ClassMissing, verdict.Reason(f.text(f.n))}[f.n%2]
		return
	case **Rates:
		return // its metrics are parsed
	}
	f.fillKind(v, depth)
}

func (f *filler) fillKind(v reflect.Value, depth int) {
	const deepest = 12
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			switch field := v.Type().Field(i); {
			case !field.IsExported():
			case field.Name == "ID":
				f.n++
				v.Field(i).SetString(fmt.Sprint("id-", f.n))
			default:
				f.fill(v.Field(i), depth+1)
			}
		}
	case reflect.Pointer:
		if depth < deepest {
			v.Set(reflect.New(v.Type().Elem()))
			f.fill(v.Elem(), depth+1)
		}
	case reflect.Slice:
		if depth < deepest {
			v.Set(reflect.MakeSlice(v.Type(), 2, 2))
			for i := range v.Len() {
				f.fill(v.Index(i), depth+1)
			}
		}
	case reflect.String:
		v.SetString(f.text(f.n))
	case reflect.Bool:
		v.SetBool(f.flag)
	case reflect.Int, reflect.Int64:
		v.SetInt(int64(f.n))
	case reflect.Float64:
		v.SetFloat(float64(f.n) / 7)
	default:
		panic("a field of the kind " + v.Kind().String())
	}
}

// filledPages are the pages with every field set to texts, by names; with flag in every bool.
func filledPages(t *testing.T, text func(n int) string, flag bool) map[string]page {
	t.Helper()
	f := &filler{text: text, flag: flag}
	pages := map[string]page{}
	add := func(key, name string, body mainPart) {
		p := page{}
		f.fill(reflect.ValueOf(&p).Elem().FieldByName("Notes"), 0)
		f.fill(reflect.ValueOf(&p).Elem().FieldByName("Unread"), 0)
		p.Nav, p.Title, p.Source, p.Query = name, text(1), text(2), text(3)
		p.Time, p.Live, p.CanAdd, p.Body = noon, flag, flag, body
		pages[key] = p
		p.Report, p.Single = true, !flag
		p.Unread = append(p.Unread, p.Unread...)
		pages[key+" of a report"] = p
	}
	addFilled := func(key, name string, body any, change func()) {
		f.fill(reflect.ValueOf(body).Elem(), 0)
		change()
		add(key, name, reflect.ValueOf(body).Elem().Interface().(mainPart))
	}
	board := &boardBody{}
	addFilled("board", "board", board, func() {
		for i := range board.Board.Causes {
			board.Board.Causes[i].Objects = manyOf(board.Board.Causes[i].Objects)
			board.Board.Causes[i].Finding.Actor = actors[i]
		}
		board.Cause = board.Board.Causes[0].ID
	})
	add("board of nothing", "board", boardBody{Board: &boardOfNothing})
	life := &lifeBody{}
	addFilled("life", "life", life, func() { life.Report.Users = manyOf(life.Report.Users) })
	add("life of nothing", "life", lifeBody{Lives: []lifeView{{}}})
	at := &atBody{}
	f.fill(reflect.ValueOf(at).Elem(), 0)
	add("at", "at", at)
	add("at of nothing", "at", &atBody{})
	for key, change := range map[string]func(m *mapBody){
		"search": func(*mapBody) {}, "node": func(m *mapBody) { m.Query = "" },
		"node of nothing": func(m *mapBody) { *m = mapBody{Node: m.Node} },
		"loose":           func(m *mapBody) { m.Query, m.Node, m.Loose = "", "", true },
		"map":             func(m *mapBody) { m.Query, m.Node, m.Loose = "", "", false },
		"map of nothing":  func(m *mapBody) { *m = mapBody{} },
		"search nothing":  func(m *mapBody) { *m = mapBody{Query: m.Query} },
	} {
		f.n = 0
		body := &mapBody{}
		addFilled(key, "map", body, func() { change(body) })
	}
	f.n = 0
	count := &numbers{}
	f.fill(reflect.ValueOf(count).Elem(), 0)
	count.Rates = hostileRates(t, text)
	add("numbers", "numbers", count)
	add("numbers of nothing", "numbers", &numbers{})
	add("numbers of no end", "numbers", &numbers{From: noon})
	reason := &reasonBody{}
	addFilled("reason", "reasonpage", reason, func() {})
	add("reason of nothing", "reasonpage", reasonBody{})
	add("error", "errorpage", errorBody(text(9)))
	add("open", "open", openBody{})
	return pages
}

var boardOfNothing = board{Time: noon, Unknown: true}

// manyOf repeats a list beyond what a page shows.
func manyOf[T any](list []T) (all []T) {
	for len(all) <= mostNamed {
		all = append(all, list...)
	}
	return all
}

func hostileRates(t *testing.T, text func(int) string) *Rates {
	label := strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(text(5))
	return &Rates{NewScrape(noon), scrapeOf(t, 10, fmt.Sprintf(`# TYPE purser_decisions_total counter
purser_decisions_total{reason="%[1]s"} 5
# TYPE csi_sidecar_operations_seconds histogram
csi_sidecar_operations_seconds_bucket{method_name="%[1]s",grpc_status_code="%[1]s",le="1"} 1
csi_sidecar_operations_seconds_bucket{method_name="%[1]s",grpc_status_code="%[1]s",le="+Inf"} 1
csi_sidecar_operations_seconds_sum{method_name="%[1]s",grpc_status_code="%[1]s"} 1
csi_sidecar_operations_seconds_count{method_name="%[1]s",grpc_status_code="%[1]s"} 1
`, label))}
}

// markupOf are the elements of a page with the names of their attributes, in order.
func markupOf(t *testing.T, text string) (all []string) {
	t.Helper()
	for tokens := html.NewTokenizer(strings.NewReader(text)); ; {
		switch tokens.Next() {
		case html.ErrorToken:
			if err := tokens.Err(); !errors.Is(err, io.EOF) {
				t.Fatal(err)
			}
			return all
		case html.TextToken:
		default:
			token := tokens.Token()
			element := token.Type.String() + " " + token.Data
			for _, attribute := range token.Attr {
				element += " " + attribute.Key
				if attribute.Key == "href" {
					element += ":" + target(t, attribute.Val)
				}
			}
			all = append(all, element)
		}
	}
}

// target is an address without the values of its parameters.
func target(t *testing.T, address string) string {
	t.Helper()
	parsed, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	query, err := url.ParseQuery(parsed.RawQuery)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprint(parsed.Scheme, parsed.Host, parsed.Path, slices.Sorted(maps.Keys(query)), parsed.Fragment)
}

// A hostile text in any field of a page is a text: the page has the same elements and attributes as
// with plain texts, and each link leads to the same page.
func TestHostileFields(t *testing.T) {
	plain := func(n int) string { return fmt.Sprint(n, "name") }
	for _, hostile := range []string{
		`"><script>alert(1)</script>`, `' onload='a`, `" onload="a`, `</title></textarea></style><b>`, `<!--`, `]]>`,
		`javascript:alert(1)`, `//example.com/`, `&kind=pv&name=other#x`, "\x00`\t{{.}}", `</svg><img src=x onerror=a>`,
	} {
		for _, flag := range []bool{true, false} {
			wanted := filledPages(t, plain, flag)
			for key, p := range filledPages(t, func(n int) string { return fmt.Sprint(n, hostile) }, flag) {
				var got, want strings.Builder
				if err := errors.Join(p.writeDocument(&got), wanted[key].writeDocument(&want)); err != nil {
					t.Fatal(err)
				}
				is, should := markupOf(t, got.String()), markupOf(t, want.String())
				if i := firstDifference(is, should); i >= 0 {
					t.Errorf(
						"%s with %q: element %d of %d is %q", key, hostile, i, len(should),
						append(is, "none")[min(i, len(is))],
					)
				}
			}
		}
	}
}

// firstDifference is the index of the first element that differs; -1 for none.
func firstDifference(a, b []string) int {
	for i := range max(len(a), len(b)) {
		if i >= len(a) || i >= len(b) || a[i] != b[i] {
			return i
		}
	}
	return -1
}
