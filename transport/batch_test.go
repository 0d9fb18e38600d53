package transport

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"remshell/batch"
	"remshell/sshx"
	"remshell/transport/dialback"
)

// testStarter returns a ByStarter with a program of the test in place of srun.
func testStarter(t *testing.T, text string) *ByStarter {
	t.Helper()
	return &ByStarter{Self: self(t), System: batch.Named("slurm"), Program: program(t, text), Env: os.Environ(), Pacer: new(sshx.Pacer),
		StarterHelp: func() string { return "  --overlap  Allow other steps to overlap this step" },
		StarterCall: func(h Host) (batch.Call, error) { return batch.Call{Host: h.Name, Part: -1}, nil }}
}

// afterOptions has a program in place of srun do what srun does: run its last word.
const afterOptions = `while [ $# -gt 1 ]; do shift; done; exec "$@"` + "\n"

// srun is called as RM-30 and RM-32 require, and does not get the variables of the surrounding step. Its
// output before the helper's first byte does no harm.
func TestByStarterCallsIt(t *testing.T) {
	dir := t.TempDir()
	s := testStarter(t, "echo srun: warning: something >&2; echo hello; echo \"$@\" >"+dir+"/args; env >"+dir+"/env; HOME="+t.TempDir()+"\n"+afterOptions)
	s.Args = []string{"--qos=high"}
	s.Env = append(s.Env, "SLURM_JOB_ID=7", "SLURM_STEP_NODELIST=n1", "SLURM_CPU_BIND_TYPE=mask", "SLURM_NTASKS=4", "SLURM_EXPORT_ENV=NONE")
	rw, err := dial(t, s, "n1")
	check(t, err)
	conn := guarded(t, rw)
	hello(t, conn, s.Self.Build)
	echoes(t, conn)
	want := "-N1 -n1 -w n1 --overlap --mpi=none --cpu-bind=none --export=ALL --input=all --kill-on-bad-exit=0 --mem=0 -u -J mpiexec --qos=high /bin/sh\n"
	if got := string(must(os.ReadFile(filepath.Join(dir, "args")))); got != want {
		t.Errorf("called with %q\nwant %q", got, want)
	}
	env := strings.Split(string(must(os.ReadFile(filepath.Join(dir, "env")))), "\n")
	if !slices.Contains(env, "SLURM_JOB_ID=7") {
		t.Error("srun does not know its job")
	}
	for _, name := range []string{"SLURM_STEP_", "SLURM_CPU_BIND", "SLURM_NTASKS", "SLURM_EXPORT_ENV"} {
		if slices.ContainsFunc(env, func(v string) bool { return strings.HasPrefix(v, name) }) {
			t.Errorf("srun has %s", name)
		}
	}
}

// If srun fails, its message is the error of the host. If Slurm is busy, it is retried.
func TestByStarterRefused(t *testing.T) {
	for stderr, want := range map[string]string{
		"srun: error: Unable to create step for job 1: Requested node configuration is not available": "srun: Unable to create step for job 1: Requested node configuration is not available",
		"srun: error: n2: task 0: Killed\nsrun: Force Terminated StepId=1.6":                          "srun: n2: task 0: Killed",
		"srun: cluster configuration lacks support for cpu binding":                                   "srun: the launcher ended with exit code 1 and printed no message",
	} {
		s := testStarter(t, "echo '"+stderr+"' >&2; exit 1\n")
		_, err := dial(t, s, "n1")
		var e *Error
		if !errors.As(err, &e) || e.Reason() != want || e.Remedy == "" {
			t.Errorf("%q: %v, want %s and what to do", stderr, err, want)
		}
	}
	tried := filepath.Join(t.TempDir(), "tried")
	s := testStarter(t, "HOME="+t.TempDir()+"\nif [ ! -e "+tried+" ]; then touch "+tried+"; echo 'srun: error: Unable to confirm allocation for job 1: Socket timed out on send/recv operation' >&2; exit 1; fi\n"+afterOptions)
	rw, err := dial(t, s, "n1")
	check(t, err)
	rw.Close()
	s = testStarter(t, "exit 1\n")
	s.StarterCall = func(h Host) (batch.Call, error) { return batch.Call{}, NotInJob(h.Name, "slurm", "12") }
	if _, err := dial(t, s, "n9"); err == nil || err.Error() != "n9: config: the host is not part of Slurm job 12" {
		t.Errorf("a host of somebody else: %v", err)
	}
}

// If there is no reply in time, the starter may know a reason: an srun older than --overlap may have to
// wait for CPUs.
func TestByStarterSilent(t *testing.T) {
	s := testStarter(t, "echo 'srun: Job 1 step creation temporarily disabled, retrying' >&2; exec sleep 1000\n")
	s.StarterHelp, s.Timeout, s.Shell = func() string { return "" }, 100*time.Millisecond, 100*time.Millisecond
	_, err := dial(t, s, "n1")
	var e *Error
	if !errors.As(err, &e) || e.Why != "srun waits for free CPUs, because this version of srun has no option --overlap" {
		t.Error(err)
	}
}

// testDialBack returns a ByStarter whose helpers connect back, with a program of the test in place of qrsh.
// All hosts are this machine, each with a home directory of its own.
func testDialBack(t *testing.T, text string) *ByStarter {
	t.Helper()
	s := testStarter(t, "HOME="+t.TempDir()+"\n"+text+"\n"+afterOptions)
	s.System, s.DialBack, s.Warn = batch.Named("sge"), true, func(text string) { t.Error(text) }
	return s
}

// A helper with a call of its own connects back (RM-36): its stream is that connection, the port is closed,
// and the starter's end is why it ended. A second name of a host uses the starter's streams.
func TestDialBack(t *testing.T) {
	s := testDialBack(t, "")
	var log bytes.Buffer
	s.Log = zerolog.New(zerolog.SyncWriter(&log))
	s.StarterCall = func(h Host) (batch.Call, error) { return batch.Call{Host: h.Name[:2], Part: -1}, nil }
	results := reached(t, s, Host{Name: "n1"}, Host{Name: "n2"}, Host{Name: "n2.domain"})
	called := 0
	for _, r := range results {
		check(t, r.Err)
		conn := r.Stream.(*Conn)
		in := bufio.NewReader(conn)
		line, err := in.ReadString('\n')
		check(t, err)
		if conn.Source() != "sent" && conn.Source() != "cache" || conn.Build() != s.Self.Build {
			t.Errorf("source %s, build %s", conn.Source(), conn.Build())
		}
		if strings.HasPrefix(line, "called n") {
			called++
		} else if line != "hello --helper "+s.Self.Build+"\n" || conn.LocalAddr() != nil {
			t.Errorf("it says %q, over %v", line, conn.LocalAddr())
		}
		echoes(t, struct {
			io.Reader
			io.Writer
		}{in, conn})
		if link, is := conn.link.(*stepLink); is && called == 1 {
			check(t, link.starter.program.cmd.Process.Kill())
			io.Copy(io.Discard, conn)
			<-link.starter.program.done // Why waits for it, too, but not as long
			if got := conn.Why(); got != "qrsh: killed by signal 9" {
				t.Errorf("it ended: %q", got)
			}
		}
	}
	if called != 2 {
		t.Errorf("%d have called, want 2", called)
	}
	if want := "MB through qrsh; to avoid this"; !strings.Contains(log.String(), want) {
		t.Errorf("no line says that the program was sent:\n%s\nwant %q", log.String(), want)
	}
}

// A helper that cannot connect uses the streams of its starter; one warning is printed for all hosts. The
// same holds if no port is free.
func TestDialBackImpossible(t *testing.T) {
	s := testDialBack(t, "export UNABLE=$2")
	var warnings []string
	var mu sync.Mutex
	s.Warn = func(text string) { mu.Lock(); warnings = append(warnings, text); mu.Unlock() }
	for _, r := range reached(t, s, Host{Name: "n1"}, Host{Name: "n2"}) {
		check(t, r.Err)
		hello(t, r.Stream, s.Self.Build)
		echoes(t, r.Stream)
	}
	if len(warnings) != 1 || !regexp.MustCompile(`^warning: n[12] cannot connect to this host on port \d+ \(connection refused\): its data goes through qrsh; give open ports with --port-range LOW:HIGH, or avoid ports with -launcher sge-streams$`).MatchString(warnings[0]) {
		t.Errorf("warnings: %q", warnings)
	}
	taken := must(net.Listen("tcp", ":0"))
	defer taken.Close()
	port := uint16(taken.Addr().(*net.TCPAddr).Port)
	s.Ports, warnings = dialback.Ports{Low: port, High: port}, nil
	for _, r := range reached(t, s, Host{Name: "n1"}) {
		check(t, r.Err)
		hello(t, r.Stream, s.Self.Build)
	}
	if len(warnings) != 1 || !strings.HasPrefix(warnings[0], fmt.Sprintf("warning: helpers cannot connect to this host (no port from %d to %d is free: ", port, port)) {
		t.Errorf("warnings: %q", warnings)
	}
}

// If a starter fails, that is the error of its host, whether other helpers connect or not.
func TestDialBackRefused(t *testing.T) {
	s := testDialBack(t, `[ "$2" != n2 ] || { echo 'error: executing task of job 8 failed: it rains' >&2; exit 1; }`)
	results := reached(t, s, Host{Name: "n1"}, Host{Name: "n2"})
	check(t, results[0].Err)
	if want := "n2: qrsh: it rains"; results[1].Err == nil || results[1].Err.Error() != want {
		t.Errorf("%v, want %s", results[1].Err, want)
	}
}

// readDialBackFailure reads up to the report and leaves the rest unread.
func TestReadNoDialBack(t *testing.T) {
	for text, want := range map[string]struct{ why, rest string }{
		"\x1eremshell stay no route\r\nfrom now on":             {"no route", "from now on"},
		"rain\n\x1eremshell stay a\n\x1eb":                      {"a", "\x1eb"},
		strings.Repeat("x", 5000) + "\n\x1eremshell stay b\n":   {"b", ""},
		strings.Repeat("x", 4096) + "\x1eremshell stay c\nrest": {},
		"\x1eremshell run cache\n":                              {},
	} {
		in := bufio.NewReaderSize(strings.NewReader(text), 4096)
		s := readDialBackFailure(in)
		if rest, _ := io.ReadAll(in); s.why != want.why || (s.err != nil) != (want.why == "") || string(rest) != want.rest {
			t.Errorf("%.40q: %+v, then %q; want %+v", text, s, rest, want)
		}
	}
}

// The stream before a possible report may contain anything: only the report's line counts, and what follows
// stays unread.
func FuzzReadNoDialBack(f *testing.F) {
	f.Add("\x1eremshell stay no route\nhello")
	f.Add("\x1eremshell stay")
	f.Fuzz(func(t *testing.T, text string) {
		in := bufio.NewReaderSize(strings.NewReader(text), 64)
		s := readDialBackFailure(in)
		rest, _ := io.ReadAll(in)
		switch before, is := strings.CutSuffix(text, string(rest)); {
		case s.err != nil && len(rest) > 0, s.err == nil && (!is || !strings.HasSuffix(before, "\n") || strings.Contains(s.why, "\n")):
			t.Fatalf("%+v, and then %q", s, rest)
		}
	})
}
