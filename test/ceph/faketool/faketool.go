package faketool

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// variable is the environment variable with the folder of the script.
const variable = "PURSER_FAKE_TOOL"

const (
	scriptFile = "script.json"
	callsFile  = "calls"
	inherited  = "/proc/self/fd/3"
)

// Step is an answer.
type Step struct {
	// Begins is how the command line begins: the name of the program and the
	// arguments that are not options, such as "rbd image-meta get".
	Begins string
	// Stdout and Stderr are printed. "{keyring}" stands for what the tool was
	// given as its keyring.
	Stdout, Stderr string
	Status         int
	// Hangs lets the tool never end.
	Hangs bool
	// Times is how often the step answers; without bound when 0.
	Times int
}

// Call is a run of a tool.
type Call struct {
	Program     string
	Arguments   []string
	Environment []string
	Keyring     string
	Pid         int
}

// Words are the program and the arguments that are not options.
func (c Call) Words() string {
	words := []string{c.Program}
	for _, argument := range c.Arguments {
		if !strings.HasPrefix(argument, "-") {
			words = append(words, argument)
		}
	}
	return strings.Join(words, " ")
}

// Line is the program and all arguments but those that name the cluster.
func (c Call) Line() string {
	line := []string{c.Program}
	for _, argument := range c.Arguments {
		name, _, _ := strings.Cut(argument, "=")
		if !slices.Contains([]string{"--conf", "--id", "--keyring", "--client_mount_timeout", "--connect-timeout"}, name) {
			line = append(line, argument)
		}
	}
	return strings.Join(line, " ")
}

// Main runs the tests, or a fake tool if the program was started as one. TestMain calls it.
func Main(m *testing.M) int {
	dir := os.Getenv(variable)
	if dir == "" {
		return m.Run()
	}
	status, err := play(dir)
	if err != nil {
		fmt.Fprintln(os.Stderr, "faketool:", err)
		return 99
	}
	return status
}

func play(dir string) (status int, err error) {
	call := Call{
		Program: filepath.Base(os.Args[0]), Arguments: os.Args[1:], Environment: os.Environ(), Pid: os.Getpid(),
	}
	if keyring, err := os.ReadFile(inherited); err == nil {
		call.Keyring = string(keyring)
	}
	earlier, err := readCalls(dir)
	if err != nil {
		return 0, err
	}
	if err := record(dir, call); err != nil {
		return 0, err
	}
	step, err := choose(dir, call, earlier)
	if err == nil {
		err = awaitGroup(dir, call.Pid)
	}
	if err != nil {
		return 0, err
	}
	fill := strings.NewReplacer("{keyring}", call.Keyring)
	fmt.Fprint(os.Stdout, fill.Replace(step.Stdout))
	fmt.Fprint(os.Stderr, fill.Replace(step.Stderr))
	if step.Hangs {
		if err := unix.Pause(); err != nil {
			return 0, err
		}
	}
	return step.Status, nil
}

func choose(dir string, call Call, earlier []Call) (Step, error) {
	content, err := os.ReadFile(filepath.Join(dir, scriptFile))
	if err != nil {
		return Step{}, err
	}
	var script []Step
	if err := json.Unmarshal(content, &script); err != nil {
		return Step{}, err
	}
	for i, step := range script {
		if !strings.HasPrefix(call.Words()+" ", step.Begins+" ") {
			continue
		}
		used := 0
		for _, before := range earlier {
			if strings.HasPrefix(before.Words()+" ", step.Begins+" ") {
				used++
			}
		}
		// Steps with the same beginning follow each other.
		for _, same := range script[:i] {
			if same.Begins == step.Begins {
				used -= same.Times
			}
		}
		if step.Times == 0 || used < step.Times {
			return step, nil
		}
	}
	return Step{}, fmt.Errorf("no step for %q", call.Words())
}

func record(dir string, call Call) error {
	line, err := json.Marshal(call)
	if err != nil {
		return err
	}
	file, err := os.OpenFile(filepath.Join(dir, callsFile), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(append(line, '\n'))
	return errors.Join(err, file.Close())
}

func readCalls(dir string) (calls []Call, err error) {
	file, err := os.Open(filepath.Join(dir, callsFile))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer file.Close()
	for decoder := json.NewDecoder(file); ; {
		var call Call
		switch err := decoder.Decode(&call); {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return calls, nil
		case err != nil:
			return nil, err
		}
		calls = append(calls, call)
	}
}
