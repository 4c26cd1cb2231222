package explain

import (
	"context"
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"github.com/spf13/cobra"

	daytwo "github.com/purser-csi/purser/internal/daytwo/rules"
	rules "github.com/purser-csi/purser/internal/explain/rules"
	"github.com/purser-csi/purser/internal/life"
)

type lifeOptions struct {
	source
	output string
	out    io.Writer
}

func newLife(streams Streams) *cobra.Command {
	o := &lifeOptions{source: source{in: streams.In, notes: streams.Err}, out: streams.Out}
	c := &cobra.Command{
		Use:   "life KIND/NAME ...",
		Short: "Show what happened to a volume, and what took how long",
		Long: `Prints the life of a volume as phases (created to mounted, in use, deleted to
gone, each pod, expansion and snapshot), and for each what was done or waited
for, by whom and how long. A record of purser record has the time of each
change and the reason of each wait; a cluster or a dump only the times that
objects name. KIND is pvc, pv, pod, volumesnapshot or volumeattachment.`,
		Example: `  purser life pvc/data -n shop
  purser life --from record.jsonl.gz pvc/data -n shop
  purser life --from record.jsonl.gz pvc/data -o perfetto > trace.json
  purser life --from record.jsonl.gz pvc/data -o html > data.html`,
		ValidArgsFunction: o.complete,
		Args:              cobra.MinimumNArgs(1),
		RunE:              func(c *cobra.Command, args []string) error { return cannotTell(o.run(c.Context(), args)) },
	}
	o.flags(c.Flags())
	o.dumpFlags(c.Flags())
	c.Flags().StringVarP(
		&o.output, "output", "o", "text",
		"`format`: text, json, yaml, perfetto for ui.perfetto.dev, or html for a page in one file",
	)
	o.completeFlags(c, "text", "json", "yaml", "perfetto")
	setExitCodes(c, "printed")
	return c
}

func (o *lifeOptions) run(ctx context.Context, args []string) error {
	switch o.output {
	case "text", "json", "yaml", "perfetto":
	case "html":
		return o.page(ctx, args)
	default:
		return fmt.Errorf("--output=%s: expected text, json, yaml, perfetto or html", o.output)
	}
	history, namespace, err := o.history(ctx)
	if err != nil {
		return err
	}
	refs, err := parseRefs(args, namespace)
	if err != nil {
		return err
	}
	answer := life.Answer{
		Schema: life.Schema, Time: history.Final.Now, Lives: []life.Life{}, Unread: history.Final.UnreadTexts(),
	}
	for _, ref := range refs {
		lives, err := livesOf(history, ref)
		if err != nil {
			return err
		}
		answer.Lives = append(answer.Lives, lives...)
	}
	text, err := renderLife(answer, o.output, widthOf(o.out), styleFor(o.out))
	if err == nil {
		_, err = io.WriteString(o.out, text)
	}
	return err
}

// history reads the source: a record has each version of each object, others the last one.
func (o *lifeOptions) history(ctx context.Context) (*life.History, string, error) {
	cluster, namespace, err := o.read(ctx)
	if err != nil {
		return nil, "", err
	}
	if o.record != nil {
		return o.record.History(), namespace, nil
	}
	of := life.OfCluster(cluster)
	of.Calls = o.calls(cluster.Now.Add(time.Second)) // the time of a dump has whole seconds
	return life.New(of), namespace, nil
}

// livesOf returns the lives that an object belongs to. Without one, the error says why.
func livesOf(history *life.History, ref rules.Ref) ([]life.Life, error) {
	switch ref.Kind {
	case rules.Claim, rules.Volume, rules.Pod, rules.Snapshot, rules.Attachment:
	default:
		return nil, fmt.Errorf("%s: a volume's life is that of a pvc, pv, pod, volumesnapshot or volumeattachment", ref)
	}
	lives := history.Lives(ref)
	if len(lives) > 0 {
		return lives, nil
	}
	report := explainNamed(history.Final, ref)
	if report.State == rules.Unknown {
		return nil, fmt.Errorf("%s: %s", ref, strings.TrimSpace(report.Summary+" "+report.Next))
	}
	return nil, fmt.Errorf("%s has no volume of a claim", ref)
}

func renderLife(answer life.Answer, format string, width int, s style) (string, error) {
	switch format {
	case "json", "yaml":
		return encode(answer, format)
	case "perfetto":
		return encode(life.Trace(answer.Lives), "json")
	}
	p := printer{width: width, style: s}
	for i, l := range answer.Lives {
		if i > 0 {
			p.line("")
		}
		p.life(l, answer.Time)
	}
	return p.String(), nil
}

// life prints the slowest interval, and a table for each phase.
func (p *printer) life(l life.Life, now time.Time) {
	end := "now"
	if l.To != nil {
		end = clock(*l.To)
	} else {
		l.To = &now
	}
	p.line("%s%s%s  %s to %s, %s", p.style.bold, l.Object, p.style.off, clock(l.From), end, took(l.To.Sub(l.From)))
	if l.Volume != "" {
		p.paragraph("", "", strings.TrimSpace(fmt.Sprintf("Volume %s, class %s, driver %s", l.Volume, orNone(l.Class),
			orNone(l.Driver))))
	}
	if l.Slowest != nil {
		p.paragraph("Slowest: ", "", fmt.Sprintf("%s  %s: %s", took(l.Slowest.Took()), laneText(*l.Slowest),
			intervalText(*l.Slowest)))
	}
	for _, phase := range l.Phases {
		p.phase(phase)
	}
	for _, text := range l.Unknown {
		p.line("")
		p.wrap(p.style.dim, "Note: ", sentence(text))
	}
}

func (p *printer) phase(phase life.Phase) {
	p.line("")
	open := ""
	if phase.Open {
		open = " so far"
	}
	p.line("%s%s%s  %s%s, %d %% of it known", p.style.bold, phase.Name, p.style.off, took(phase.To.Sub(phase.From)),
		open, int(math.Round(phase.Attributed*100)))
	for _, i := range phase.Intervals {
		if i.Took() < time.Millisecond && len(phase.Intervals) > 1 {
			continue // a write that followed another at once
		}
		label := fmt.Sprintf("  %9s  %8s  %-13s  ", "+"+took(i.From.Sub(phase.From)), took(i.Took()), laneText(i))
		p.paragraph(label, "", intervalText(i))
	}
}

func laneText(i life.Interval) string {
	if i.Lane == life.NoLane {
		return "not known"
	}
	return string(i.Lane)
}

// intervalText is the sentence about an interval, with the reason of the wait.
func intervalText(i life.Interval) string {
	text := i.What
	if i.Reason != "" {
		text += " (" + string(i.Reason) + ")"
	}
	return text
}

func orNone(text string) string {
	if text == "" {
		return "none"
	}
	return text
}

func clock(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05Z") }

// took returns a duration in three digits or so.
func took(d time.Duration) string {
	if d < 48*time.Hour {
		return daytwo.Took(d)
	}
	return fmt.Sprintf("%dd%02dh", int(d.Hours())/24, int(d.Hours())%24)
}
