package reach

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"remshell/reach/starter"
	"remshell/sshx"
)

// A ByStarter reaches the hosts of a batch system's job by its own starter, a call for each; which
// there are, and what they are told, is package starter's. Its fields must not change after the
// first Dial.
type ByStarter struct {
	Self    Self
	Starter *starter.Starter
	Program string                           // its path
	Args    []string                         // -launcher-args, already split
	Env     []string                         // ours; the starter does not get all of it
	Help    func() string                    // what it tells of its options; called when the first host is dialled
	Find    func(Host) (starter.Call, error) // a host in the words of the batch system; or why it is not the job's
	Timeout time.Duration                    // how long nothing may move before the helper speaks; 0: 10 s
	Retries int                              // attempts where the batch system is busy; 0: 4
	Pacer   *sshx.Pacer                      // says how many may be in the set-up phase at once
	Log     zerolog.Logger
}

var _ Way = (*ByStarter)(nil)

// Dial starts a shell on each host of a set.
func (s *ByStarter) Dial(ctx context.Context, hosts []Host) <-chan Result {
	return Each(ctx, hosts, s.dial)
}

// Route is the command that would be run.
func (s *ByStarter) Route(host Host) (string, error) {
	argv, err := s.argv(host)
	return "by " + strings.Join(argv, " "), err
}

// call is the call for a host by itself.
func (s *ByStarter) call(host Host) (starter.Call, error) {
	call, err := s.Find(host)
	if err == nil {
		call.Program, call.Help, call.More = s.Program, s.Help(), s.Args
	}
	return call, err
}

func (s *ByStarter) argv(host Host) ([]string, error) {
	call, err := s.call(host)
	if err != nil {
		return nil, err
	}
	return s.Starter.Argv(call), nil
}

// dial starts the program for a host.
func (s *ByStarter) dial(ctx context.Context, host Host) (io.ReadWriteCloser, error) {
	argv, err := s.argv(host)
	if err != nil {
		return nil, err
	}
	r := remoteShell{self: s.Self, env: s.Starter.Environ(s.Env), timeout: cmp.Or(max(s.Timeout, 0), defaultTimeout), retries: s.Retries,
		pacer: s.Pacer, log: s.Log, missing: "use -launcher ssh", stop: s.end, words: lastWordsOf{s.verdict, s.why}}
	conn, err := r.dial(ctx, host, argv)
	if err == nil {
		return conn, nil // not a nil *Conn in an interface
	}
	return nil, s.explained(err)
}

// explained adds what the starter alone may know: why nothing has come in time.
func (s *ByStarter) explained(err error) error {
	var e *Error
	if s.Starter.Silent == nil || !errors.As(err, &e) || e.Kind != KindReach || e.Step != "connect" {
		return err
	}
	if why, remedy := s.Starter.Silent(s.Help()); why != "" {
		e.Why, e.Remedy = why, remedy
	}
	return err
}

// end sees to the end of the program. Once the helper runs, it is left to it how to end its ranks:
// the starter, if it were asked, would have them killed. Killed itself, it takes no part in that
// any more.
func (s *ByStarter) end(p *localCommand, spoken bool) {
	if !spoken && s.Starter.Asked {
		syscall.Kill(-p.cmd.Process.Pid, syscall.SIGTERM)
	}
	if p.within(s.Starter.Grace) {
		return
	}
	syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
	p.within(killGrace)
}

// verdict says what it means that the program has ended before the helper spoke.
func (s *ByStarter) verdict(stderr string, exit int) Verdict {
	v := s.Starter.Verdict(stderr, exit)
	kind := KindOther
	if v.Busy {
		kind = KindBusy
	}
	return Verdict{kind, s.Starter.Program, v.Why, v.Remedy}
}

// why says that after that.
func (s *ByStarter) why(status error, stderr string) string {
	return s.Starter.Program + ": " + cmp.Or(s.Starter.Line(stderr), howItEnded(status))
}

// NotInJob is why a host is not reached by a batch system's starter (M7).
func NotInJob(host, system, number string) error {
	return &Error{Host: host, Step: "config", Kind: KindConfig, Why: fmt.Sprintf("not part of %s job %s", system, number),
		Remedy: "add it to the allocation, or use -launcher ssh"}
}
