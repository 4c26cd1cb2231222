package scenario

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Parse reads one scenario. Its name and family are the file's.
func Parse(text string) (Scenario, error) {
	var s Scenario
	heading, cold := true, -1
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		switch {
		case line == "":
		case strings.HasPrefix(line, "#"):
			if heading {
				s.Notes += strings.TrimSpace(strings.TrimPrefix(line, "#")) + "\n"
			}
		default:
			heading = false
			if err := s.add(i+1, line, &cold); err != nil {
				return Scenario{}, fmt.Errorf("line %d: %s: %w", i+1, line, err)
			}
		}
	}
	s.Cold = max(cold, 0)
	return s, s.fault()
}

// add takes one line, which may stand for several steps or be about the file as a whole.
func (s *Scenario) add(number int, line string, cold *int) error {
	for _, spelled := range spread(line) {
		words, err := split(spelled)
		if err != nil {
			return err
		}
		switch words[0] {
		case "lane":
			s.Lane = strings.Join(words[1:], " ")
			continue
		case "loose":
			s.Loose = strings.Join(words[1:], " ")
			continue
		case "random":
			_, pattern, _ := strings.Cut(line, ": ")
			s.Random = append(s.Random, pattern)
			continue
		case string(Start):
			*cold = len(s.Steps)
			continue
		}
		step, err := parseStep(words)
		if err != nil {
			return err
		}
		step.Line, step.Text = number, spelled
		s.Steps = append(s.Steps, step)
	}
	return nil
}

func (s Scenario) fault() error {
	if s.Notes == "" {
		return errors.New("no comment at the top: say which rule is tried and what should come of it")
	}
	if s.Lane != "" && s.Cold > 0 {
		return errors.New("what is there before the controllers start would meet the others of the lane")
	}
	for _, step := range s.Steps {
		if err := s.shares(step); err != nil {
			return fmt.Errorf("line %d: %w", step.Line, err)
		}
	}
	return nil
}

// shares returns an error for a step that affects the whole cluster outside of [LaneShared].
func (s Scenario) shares(step Step) error {
	class, given := step.Option("class")
	if step.Verb != Create || s.Lane == LaneShared {
		return nil
	}
	switch {
	case step.Kind == Claim && !given && !step.Has("beta-class"):
		return fmt.Errorf("a claim without class= gets any default class: use 'lane %s', or class= for none", LaneShared)
	case step.Kind == Class && (step.Has("default") || step.Has("beta-default")):
		return fmt.Errorf("a default class needs 'lane %s'", LaneShared)
	case step.Kind == Claim && given && class == "" && !step.Has("select"), step.Kind == Volume && class == "" && !step.Has("claim"):
		return fmt.Errorf("without a class it meets other scenarios: use a class or 'lane %s', or a selector for a claim", LaneShared)
	}
	return nil
}

func parseStep(words []string) (Step, error) {
	first, rest := words[0], words[1:]
	if slices.Contains(Kinds(), Kind(first)) {
		step := Step{Verb: Create, Kind: Kind(first)}
		return step.object(rest, creating[step.Kind])
	}
	step := Step{Verb: Verb(first)}
	switch step.Verb {
	case Settle:
		if len(rest) > 0 {
			return step, errors.New("settle stands alone")
		}
		return step, nil
	case Provision:
		step.Kind = Volume
		if len(rest) < 2 {
			return step, errors.New("say: provision CLAIM VOLUME")
		}
		step.Words = rest[:1]
		return step.object(rest[1:], creating[Volume])
	case Answer:
		step.Kind = Volume
		return step.object(rest, others[Answer])
	case Discard:
		step.Kind = Volume
		return step.object(rest, syntax{})
	case Patch, Status, Delete, Wait, Expect:
		if len(rest) < 2 || !slices.Contains(Kinds(), Kind(rest[0])) {
			return step, fmt.Errorf("say: %s KIND NAME ..., with a kind of %v", first, Kinds())
		}
		step.Kind = Kind(rest[0])
		return step.object(rest[1:], others[step.Verb])
	default:
	}
	return step, fmt.Errorf("there is no verb %q", first)
}

// syntax is what may follow a name.
type syntax struct {
	words   int // exactly; -1: any number
	options string
}

// creating is the syntax of making an object of each kind; docs of the options are in the package
// play.
var creating = map[Kind]syntax{
	Volume: {words: 2, options: "class claim uid policy mode vac labels ann driver provisioned-by source affinity finalizer " +
		"by-controller phase namespace mountopt expand-secret fstype"},
	Claim: {words: 2, options: "class beta-class volume mode vac select expr labels ann by-controller completed phase node source " +
		"owner finalizer capacity current-vac"},
	Pod:       {options: "claims node ephemeral phase finalizer class"},
	Class:     {options: "provisioner ann wffc default beta-default reclaim expand mountopt"},
	Attribute: {options: "driver finalizer"},
	Secret:    {},
}

// conditions are the conditions of wait and expect.
const conditions = "volume claim class ann no-ann finalizer no-finalizer event no-event capacity uid field cond no-cond calls"

var others = map[Verb]syntax{
	Patch:  {words: 1},
	Status: {words: 1},
	Delete: {words: -1},
	Wait:   {words: -1, options: conditions},
	Expect: {words: -1, options: conditions},
	Answer: {words: -1, options: "method capacity node times always"},
}

var optionKey = regexp.MustCompile(`^([a-z][a-z-]*)=`)

// flags are the options without a value.
var flags = []string{"by-controller", "completed", "wffc", "default", "beta-default", "expand", "always"}

// object reads NAME and what follows it.
func (s Step) object(words []string, form syntax) (Step, error) {
	if len(words) == 0 {
		return s, errors.New("the name is missing")
	}
	s.Name = words[0]
	known := strings.Fields(form.options)
	for _, word := range words[1:] {
		key, value, flag := word, "", slices.Contains(flags, word)
		if m := optionKey.FindStringSubmatch(word); m != nil {
			key, value, flag = m[1], word[len(m[0]):], true
		}
		switch {
		case !flag:
			s.Words = append(s.Words, word)
		case !slices.Contains(known, key):
			return s, fmt.Errorf("%s has no option %q; there are: %s", s.Verb, key, form.options)
		default:
			s.Options = append(s.Options, Option{key, value})
		}
	}
	if form.words >= 0 && len(s.Words) != form.words && s.Verb != Provision {
		return s, fmt.Errorf("%d words follow the name, not %d", len(s.Words), form.words)
	}
	return s, nil
}

// split cuts a line at spaces that are not between single quotes.
func split(line string) (words []string, err error) {
	var word strings.Builder
	quoted, begun := false, false
	for _, r := range line {
		switch {
		case r == '\'':
			quoted, begun = !quoted, true
		case r == ' ' && !quoted:
			if begun {
				words = append(words, word.String())
			}
			word.Reset()
			begun = false
		default:
			word.WriteRune(r)
			begun = true
		}
	}
	if quoted {
		return nil, errors.New("a quote is not closed")
	}
	if begun {
		words = append(words, word.String())
	}
	return words, nil
}

var numbers = regexp.MustCompile(`\{(\d+)\.\.(\d+)\}`)

// spread repeats a line that has {1..20} in it, with each number in all such places.
func spread(line string) (lines []string) {
	m := numbers.FindStringSubmatch(line)
	if m == nil {
		return []string{line}
	}
	from, _ := strconv.Atoi(m[1]) // digits, by the expression
	to, _ := strconv.Atoi(m[2])
	for n := from; n <= to; n++ {
		lines = append(lines, numbers.ReplaceAllString(line, strconv.Itoa(n)))
	}
	return lines
}
