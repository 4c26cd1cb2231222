package sanity

import (
	"encoding/xml"
	"errors"
	"os"
	"strings"
	"testing"
)

// result counts specs. Those that the driver's capabilities rule out, and
// those that csi-sanity itself has marked as pending, count as skipped.
type result struct{ passed, failed, skipped int }

// junit is the part of a JUnit report that ginkgo fills.
type junit struct {
	Suites []struct {
		Cases []struct {
			Name    string    `xml:"name,attr"`
			Failure *struct{} `xml:"failure"`
			Error   *struct{} `xml:"error"`
			Skipped *struct{} `xml:"skipped"`
		} `xml:"testcase"`
	} `xml:"testsuite"`
}

func readReport(path string) (result, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return result{}, err
	}
	return parseReport(content)
}

// parseReport counts the cases itself: the sums of the report leave it open
// whether a skipped spec was run. Nodes around the suite ("[BeforeSuite]") are
// cases too, and count only when they fail.
func parseReport(content []byte) (result, error) {
	var report junit
	if err := xml.Unmarshal(content, &report); err != nil {
		return result{}, err
	}
	if len(report.Suites) == 0 {
		return result{}, errors.New("the report has no test suite")
	}
	var sum result
	for _, suite := range report.Suites {
		for _, spec := range suite.Cases {
			switch {
			case spec.Failure != nil, spec.Error != nil:
				sum.failed++
			case !strings.HasPrefix(spec.Name, "[It]"):
			case spec.Skipped != nil:
				sum.skipped++
			default:
				sum.passed++
			}
		}
	}
	return sum, nil
}

func TestParseReport(t *testing.T) {
	const report = `<testsuites tests="6"><testsuite name="CSI">
		<testcase name="[BeforeSuite]" status="passed"></testcase>
		<testcase name="[It] a" status="passed"></testcase>
		<testcase name="[It] b" status="skipped"><skipped message="skipped"></skipped></testcase>
		<testcase name="[It] c" status="failed"><failure message="no"></failure></testcase>
		<testcase name="[It] d" status="panicked"><error message="no"></error></testcase>
		<testcase name="[AfterSuite]" status="failed"><failure message="no"></failure></testcase>
	</testsuite></testsuites>`
	got, err := parseReport([]byte(report))
	if want := (result{passed: 1, failed: 3, skipped: 1}); err != nil || got != want {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
	for _, bad := range []string{"", "<testsuites></testsuites>", "no xml"} {
		if got, err := parseReport([]byte(bad)); err == nil {
			t.Errorf("%q was read as %+v", bad, got)
		}
	}
}
