package option

import (
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"
	"time"

	"github.com/alecthomas/kong"

	"remshell/job"
)

// A JobSignal is the value of --signal: a signal, and the job to which it is sent.
type JobSignal struct {
	Number int // 0: not given
	Job    string
}

// A SignalList is a list of signals, as names or numbers separated by commas. Set is true if the option was
// given. An empty list with Set means "none".
type SignalList struct {
	Set     bool
	Numbers []int
}

// An EndWarning is the value of --warn: a signal, and how long before the end of the job it is sent. The zero value
// means that the option was not given.
type EndWarning struct {
	Number     int
	TimeBefore time.Duration
}

// catchableSignals are signals that programs commonly handle.
var catchableSignals = []string{"USR1", "USR2", "TERM", "INT", "HUP", "QUIT", "ALRM", "CONT", "XCPU", "WINCH"}

// Choices returns the names of common signals.
func (JobSignal) Choices() []string {
	return append(catchableSignals[:len(catchableSignals):len(catchableSignals)], "KILL", "STOP")
}

// Choices returns the signals that mpiexec can pass on, and "none".
func (SignalList) Choices() []string {
	return append(catchableSignals[:len(catchableSignals):len(catchableSignals)], "none")
}

// Choices returns possible beginnings of a value for shell completion: each signal that programs can handle,
// followed by "@".
func (EndWarning) Choices() (words []string) {
	for _, name := range catchableSignals {
		words = append(words, name+"@")
	}
	return words
}

// Choices returns the names of signals that can request a checkpoint.
func (NodeSignal) Choices() []string { return catchableSignals }

// A SignalNumbers is a function that returns the number of a signal on this operating system, given the
// signal's full name. It returns 0 if there is no such signal.
type SignalNumbers func(name string) int

// registerMappers registers the functions that decode values with signal names.
func (number SignalNumbers) registerMappers(registry *kong.Registry) {
	registry.RegisterType(reflect.TypeFor[JobSignal](), kong.MapperFunc(func(ctx *kong.DecodeContext, target reflect.Value) error {
		s, err := number.parseJobSignal(ctx.Scan.Pop().String())
		target.Set(reflect.ValueOf(s))
		return err
	}))
	registry.RegisterType(reflect.TypeFor[EndWarning](), kong.MapperFunc(func(ctx *kong.DecodeContext, target reflect.Value) error {
		w, err := number.parseEndWarning(ctx.Scan.Pop().String())
		target.Set(reflect.ValueOf(w))
		return err
	}))
	registry.RegisterType(reflect.TypeFor[SignalList](), kong.MapperFunc(func(ctx *kong.DecodeContext, target reflect.Value) error {
		l, err := number.parseSignalList(ctx.Scan.Pop().String())
		target.Set(reflect.ValueOf(l))
		return err
	}))
}

func (number SignalNumbers) parseJobSignal(text string) (s JobSignal, err error) {
	name, id, _ := strings.Cut(text, "=")
	s.Job = id
	if s.Number, err = number.ParseSignal(name); err == nil && id == "" {
		err = errors.New("no job given; mpiexec --ps lists jobs")
	}
	return s, err
}

func (number SignalNumbers) parseSignalList(text string) (SignalList, error) {
	l := SignalList{Set: true, Numbers: []int{}}
	if strings.EqualFold(text, "none") {
		return l, nil
	}
	for name := range strings.SplitSeq(text, ",") {
		n, err := number.ParseSignal(name)
		if err != nil {
			return l, err
		}
		if n == number("SIGKILL") || n == number("SIGSTOP") {
			return l, fmt.Errorf("%s cannot be passed on: no process can catch it", name)
		}
		l.Numbers = append(l.Numbers, n)
	}
	return l, nil
}

func (number SignalNumbers) parseEndWarning(text string) (w EndWarning, err error) {
	name, before, given := strings.Cut(text, "@")
	if !given {
		return w, fmt.Errorf("%q is not SIGNAL@TIME, such as USR1@60", text)
	}
	if w.Number, err = number.ParseSignal(name); err == nil {
		w.TimeBefore, err = parseSeconds(before)
	}
	return w, err
}

// ParseSignal parses a signal such as USR1, SIGTERM or 10. It returns an error if this operating system has
// no such signal.
func (number SignalNumbers) ParseSignal(name string) (int, error) {
	n, err := strconv.Atoi(name)
	if err != nil {
		n = number("SIG" + strings.TrimPrefix(strings.ToUpper(name), "SIG"))
	}
	if n < 1 || n > 64 {
		return 0, fmt.Errorf("%q is not a signal; use a name (TERM, USR1) or a number", name)
	}
	return n, nil
}

// A NodeSignal is a signal number of Linux, the operating system of all nodes. The zero value means that the option
// was not given.
type NodeSignal job.Signal

func (s *NodeSignal) UnmarshalText(text []byte) error {
	number, err := strconv.Atoi(string(text))
	if err != nil {
		number = int(job.SignalByName("SIG" + strings.TrimPrefix(strings.ToUpper(string(text)), "SIG")))
	}
	*s = NodeSignal(number)
	switch {
	case number < 1 || number > 64:
		return fmt.Errorf("%q is not a signal; use a name (USR1, TERM) or a number", text)
	case number == 9 || job.Signal(number) == job.SIGSTOP:
		return fmt.Errorf("no process can catch %s", job.Signal(number))
	}
	return nil
}

func (s NodeSignal) String() string { return job.Signal(s).String() }
