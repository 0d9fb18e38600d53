package transport

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"remshell/batch"
	"remshell/deadline"
)

// shells returns the shells that the script supports, as far as they are installed.
func shells() [][]string {
	found := [][]string{{"/bin/sh"}}
	for _, argv := range [][]string{{"dash"}, {"bash"}, {"bash", "--posix"}, {"busybox", "sh"}, {"ksh"}, {"mksh"}} {
		if _, err := exec.LookPath(argv[0]); err == nil {
			found = append(found, argv)
		}
	}
	return found
}

// A node is a shell with a home directory of its own.
type node struct {
	shell []string
	home  string
	env   []string
}

func newNode(t testing.TB, shell ...string) *node {
	return &node{shell: shell, home: t.TempDir()}
}

func (n *node) start(t testing.TB) *localCommand {
	t.Helper()
	cmd := exec.Command(n.shell[0], n.shell[1:]...)
	cmd.Env = append([]string{"HOME=" + n.home, "PATH=" + os.Getenv("PATH")}, n.env...)
	cmd.Dir = n.home
	p, err := startProcess(cmd, endGroup, endLeftovers)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

// deliverIn delivers to n1, with a time limit for each step.
func (s HelperBinary) deliverIn(ctx context.Context, l helperLink, each time.Duration) (*Conn, error) {
	return s.deliver(deadline.New(ctx, each, errStepTimeout, nil), "n1", l, stepTimeouts{shell: each, others: each})
}

func (n *node) dial(t testing.TB, s HelperBinary) (*Conn, error) {
	t.Helper()
	return s.deliverIn(longContext(t), n.start(t), 5*time.Minute)
}

// reach dials and expects that the helper was reached with a source.
func (n *node) reach(t testing.TB, s HelperBinary, source string) *Conn {
	t.Helper()
	conn, err := n.dial(t, s)
	if err != nil {
		t.Fatalf("%v (%s)", err, errors.Unwrap(err))
	}
	if conn.Source() != source {
		t.Errorf("source %q, want %q", conn.Source(), source)
	}
	if want := s.Size; (source == "sent") != (conn.Sent() == want) || (source != "sent") != (conn.Sent() == 0) {
		t.Errorf("%s: %d bytes sent, the program has %d", source, conn.Sent(), want)
	}
	hello(t, conn, s.Build)
	return conn
}

func (n *node) cache(s HelperBinary) string {
	return filepath.Join(n.home, ".cache/remshell", s.Build, "mpiexec")
}

func eachShell(t *testing.T, test func(t *testing.T, n *node)) {
	for _, shell := range shells() {
		t.Run(strings.Join(shell, " "), func(t *testing.T) { test(t, newNode(t, shell...)) })
	}
}

func TestSentOnceThenCached(t *testing.T) {
	eachShell(t, func(t *testing.T, n *node) {
		s := self(t)
		echoes(t, n.reach(t, s, "sent"))
		echoes(t, n.reach(t, s, "cache"))
		info, err := os.Stat(filepath.Dir(n.cache(s)))
		if err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("cache folder: %v %v, want mode 700", info.Mode(), err)
		}
		if left, _ := filepath.Glob(filepath.Dir(n.cache(s)) + "/.*"); len(left) > 0 {
			t.Errorf("left behind: %v", left)
		}
	})
}

// If the helper could not start, since address space is limited, the error says so (RM-57).
func TestAddressSpace(t *testing.T) {
	const enough = "1099511627776" // KiB: this program may have been built with the race detector
	eachShell(t, func(t *testing.T, n *node) {
		limited := func(kib string) *node {
			return &node{shell: append([]string{"/bin/sh", "-c", "ulimit -v " + kib + `; exec "$@"`, "sh"}, n.shell...), home: n.home}
		}
		refused := func(what string, s HelperBinary) {
			_, err := limited("409600").dial(t, s)
			var e *Error
			if !errors.As(err, &e) || e.Error() != "n1: start: the address space of processes on the node is limited to 400 MB, but the helper needs 900 MB" || e.Remedy == "" {
				t.Errorf("%s: %v", what, err)
			}
		}
		s := self(t)
		refused("not there yet", s)
		if _, err := os.Stat(n.home + "/.cache"); err == nil {
			t.Error("something was sent for nothing")
		}
		limited(enough).reach(t, s, "sent").Close()
		refused("in the cache", s)
		limited(enough).reach(t, s, "cache").Close()
		if err := os.Chmod(n.cache(s), 0o770); err != nil {
			t.Fatal(err)
		}
		s.nodeDirs = []string{t.TempDir()} // where it goes instead
		limited(enough).reach(t, s, "sent").Close()
		refused("open to others", s)
		refused("on a shared path", installed(t, n.home))
	})
}

func TestNoFurtherProgramWhenCached(t *testing.T) {
	n := newNode(t, "/bin/sh")
	s := self(t)
	n.reach(t, s, "sent").Close()
	dir := t.TempDir() // comes before the system's directories
	for _, name := range strings.Fields("cat chmod cmp dd find head id ln mkdir mv pbs_attach printf rm uname wc") {
		if err := os.WriteFile(dir+"/"+name, []byte("#!/bin/sh\n: >\"${0%/*}/called-${0##*/}\"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	n.env = []string{"PATH=" + dir + ":" + os.Getenv("PATH")}
	n.reach(t, s, "cache")
	if called, _ := filepath.Glob(dir + "/called-*"); len(called) > 0 {
		t.Errorf("called: %v", called)
	}
}

// A start-up file may remove the system's directories from PATH. The script appends them, so that the
// file's own choice comes first.
func TestPathWithoutSystemFolders(t *testing.T) {
	eachShell(t, func(t *testing.T, n *node) {
		shell, err := exec.LookPath(n.shell[0])
		if err != nil {
			t.Fatal(err)
		}
		n.shell = append([]string{shell}, n.shell[1:]...)
		own := t.TempDir()
		for given, want := range map[string]string{
			own: own + ":/usr/bin:/bin", "": "/usr/bin:/bin", "/bin:" + own: "/bin:" + own + ":/usr/bin", "/usr/bin:/bin:" + own: "/usr/bin:/bin:" + own,
		} {
			n.env = []string{"PATH=" + given}
			conn := n.reach(t, self(t).WithDelivery("always"), "sent")
			fmt.Fprint(conn, "environ\n")
			environ, err := bufio.NewReader(conn).ReadString('\n')
			if want := fmt.Sprintf("%q", "PATH="+want); err != nil || !strings.Contains(environ, want) {
				t.Errorf("PATH=%s: the helper has %s, want %s (%v)", given, environ, want, err)
			}
			conn.Close()
		}
	})
}

func TestSharedPath(t *testing.T) {
	eachShell(t, func(t *testing.T, n *node) {
		s := installed(t, n.home)
		echoes(t, n.reach(t, s, "shared"))
		if _, err := os.Stat(n.home + "/.cache"); err == nil {
			t.Error("something was put into the home")
		}
	})
}

// The launcher's own file is recognized by number, size and time, without being read. A file that differs
// in one of these is read.
func TestSharedPathIsTheSameFile(t *testing.T) {
	eachShell(t, func(t *testing.T, n *node) {
		path := installed(t, n.home).Path
		set := func(when time.Time) HelperBinary {
			t.Helper()
			if err := os.Chtimes(path, when, when); err != nil {
				t.Fatal(err)
			}
			s, err := readBinary(path, path)
			if err != nil {
				t.Fatal(err)
			}
			s.Build = strings.Repeat("x", len(s.Build)) // is not in the file, so reading would not find it
			return s.WithDelivery("never")
		}
		s := set(time.Date(2026, 2, 3, 4, 5, 6, 70_000, time.UTC))
		n.reach(t, s, "shared").Close()
		for why, other := range map[string]string{"number": "1 " + s.fileIdentity, "time": strings.Replace(s.fileIdentity, "04:05", "04:06", 1), "size": strings.Replace(s.fileIdentity, " ", " 1", 1)} {
			s := s
			s.fileIdentity = other
			if _, err := n.dial(t, s); err == nil {
				t.Errorf("it is taken for the same with another %s", why)
			}
		}
		if s := set(time.Date(2026, 2, 3, 4, 5, 6, 0, time.UTC)); s.fileIdentity != "none" {
			t.Errorf("%q has a time that many files may have", s.fileIdentity)
		} else if _, err := n.dial(t, s); err == nil {
			t.Error("it is taken for the same by such a time")
		}
	})
}

// installed returns the binary as if it were installed in a directory that all nodes see.
func installed(t testing.TB, dir string) HelperBinary {
	t.Helper()
	s := self(t)
	s.Path = filepath.Join(must(filepath.EvalSymlinks(dir)), "it's an mpiexec")
	data := must(os.ReadFile("/proc/self/exe"))
	if err := os.WriteFile(s.Path, data, 0o755); err != nil {
		t.Fatal(err)
	}
	return s
}

// A file at the launcher's path is not run unless it is the same program.
func TestForeignProgramAtSharedPath(t *testing.T) {
	trap := "#!/bin/sh\n: >\"${0%/*}/trapped\"\n"
	for name, content := range map[string]string{
		"another program":  trap,
		"a long text":      trap + strings.Repeat("x\n", 100_000),
		"no line end":      strings.Repeat("x", 1<<20),
		"empty":            "",
		"the ID elsewhere": trap + strings.Repeat("x\n", 5000) + self(t).Build,
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, "/bin/sh")
			s := self(t)
			s.Path = n.home + "/mpiexec"
			if err := os.WriteFile(s.Path, []byte(content), 0o755); err != nil {
				t.Fatal(err)
			}
			n.reach(t, s, "sent")
			if _, err := os.Stat(n.home + "/trapped"); err == nil {
				t.Error("the foreign program was run")
			}
		})
	}
}

// If the user has named a path, exactly that file runs, whoever could change it; or else nothing does.
func TestToldPath(t *testing.T) {
	eachShell(t, func(t *testing.T, n *node) {
		s := installed(t, n.home)
		if err := os.Chmod(n.home, 0o777); err != nil {
			t.Fatal(err)
		}
		file := s.Path
		s.Path = "" // the launcher's own path is not tried
		echoes(t, n.reach(t, s.AtPath(file), "told"))
		for name, c := range map[string]struct {
			text string
			mode os.FileMode
			why  string
		}{
			"none":    {"", 0, "there is no such file"},
			"text":    {"#!/bin/sh\n: >\"${0%/*}/trapped\"\n", 0o755, otherBuild},
			"no mode": {"x", 0o644, "it cannot be executed"},
		} {
			file := filepath.Join(n.home, name)
			if c.mode != 0 {
				if err := os.WriteFile(file, []byte(c.text), c.mode); err != nil {
					t.Fatal(err)
				}
			}
			var e *Error
			_, err := n.dial(t, s.AtPath(file))
			if !errors.As(err, &e) || e.Kind != KindMissing || e.Why != file+": "+c.why || e.Remedy == "" {
				t.Errorf("%s: %v, want %s", name, err, c.why)
			}
		}
		for _, name := range []string{"trapped", ".cache"} {
			if _, err := os.Stat(filepath.Join(n.home, name)); err == nil {
				t.Errorf("there is %s now", name)
			}
		}
	})
}

// CheckSameFile recognizes this program by its build, whatever its name.
func TestCheckSameFile(t *testing.T) {
	s := installed(t, t.TempDir())
	for file, want := range map[string]string{s.Path: "", "/bin/sh": otherBuild, "/nowhere": "no such file or directory"} {
		err := s.CheckSameFile(file)
		if got := fmt.Sprint(err); got != want && (want != "" || err != nil) {
			t.Errorf("%s: %v, want %q", file, err, want)
		}
	}
}

func TestSharedPathThatOthersCanChange(t *testing.T) {
	eachShell(t, func(t *testing.T, n *node) {
		dir := n.home + "/bin"
		os.Mkdir(dir, 0o755)
		s := installed(t, dir)
		owner := func(uid int) func() error {
			return func() error { return os.Chown(s.Path, uid, -1) }
		}
		link := filepath.Join(n.home, "link")
		os.Symlink(dir, link)
		for _, c := range []struct {
			name   string
			change func() error
			source string
		}{
			{"ours", func() error { return nil }, "shared"},
			{"not executable", func() error { return os.Chmod(s.Path, 0o644) }, "cache"},
			{"executable again", func() error { return os.Chmod(s.Path, 0o755) }, "shared"},
			{"of another user", owner(12345), "cache"},
			{"ours again", owner(os.Getuid()), "shared"},
			{"folder of another user", func() error { return os.Chown(dir, 12345, -1) }, "cache"},
			{"folder ours again", func() error { return os.Chown(dir, os.Getuid(), -1) }, "shared"},
			{"for all to write", func() error { return os.Chmod(s.Path, 0o777) }, "cache"},
			{"for us to write", func() error { return os.Chmod(s.Path, 0o755) }, "shared"},
			{"folder for all to write", func() error { return os.Chmod(dir, 0o777) }, "cache"},
			{"folder with sticky bit", func() error { return os.Chmod(dir, 0o777|os.ModeSticky) }, "shared"},
			{"through a link", func() error { s.Path = link + "/" + filepath.Base(s.Path); return nil }, "cache"},
		} {
			if c.name == "ours" {
				moved := s
				moved.Path = ""
				n.reach(t, moved, "sent").Close()
			}
			if err := c.change(); chownRefused(err) {
				continue
			} else if err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
			t.Log(c.name)
			n.reach(t, s, c.source).Close()
		}
	})
}

// chownRefused reports that only root can create this case.
func chownRefused(err error) bool {
	return os.Getuid() != 0 && errors.Is(err, os.ErrPermission)
}

func TestCacheOfAnotherUser(t *testing.T) {
	for name, plant := range map[string]func(home string) error{
		"folder of another user": func(home string) error {
			return errors.Join(os.MkdirAll(home+"/.cache/remshell", 0o777), os.Chown(home+"/.cache/remshell", 12345, -1))
		},
		"link to our own folder": func(home string) error {
			return errors.Join(os.MkdirAll(home+"/.cache", 0o777), os.Mkdir(home+"/own", 0o700), os.Symlink(home+"/own", home+"/.cache/remshell"))
		},
		"a file": func(home string) error {
			return errors.Join(os.MkdirAll(home+"/.cache", 0o777), os.WriteFile(home+"/.cache/remshell", nil, 0o777))
		},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, "/bin/sh")
			s := self(t)
			if err := plant(n.home); chownRefused(err) {
				return
			} else if err != nil {
				t.Fatal(err)
			}
			_, err := n.dial(t, s)
			var e *Error
			if !errors.As(err, &e) || e.Kind != KindStore {
				t.Fatalf("error %v, want one of kind %s", err, KindStore)
			}
			s.nodeDirs = []string{n.home}
			n.reach(t, s, "sent")
		})
	}
}

// A file that others can write to is not run, wherever it is in the cache (TRUST-27).
func TestCacheOpenToOthers(t *testing.T) {
	eachShell(t, func(t *testing.T, n *node) {
		s := self(t)
		n.reach(t, s, "sent").Close()
		folder := filepath.Dir(n.cache(s))
		for name, c := range map[string]struct {
			file   string
			mode   os.FileMode
			source string // of the helper then
		}{
			"control":                {n.cache(s), 0o700, "cache"},
			"control: read by all":   {n.cache(s), 0o755, "cache"},
			"control: group of root": {folder, 0o750, "cache"},
			"program for all":        {n.cache(s), 0o777, "sent"},
			"program for a group":    {n.cache(s), 0o770, "sent"},
			"folder for all":         {folder, 0o777, "sent"},
			"folder above for all":   {filepath.Dir(folder), 0o777, "sent"},
			"sticky folder":          {filepath.Dir(folder), 0o777 | os.ModeSticky, "sent"},
		} {
			before := must(os.Stat(c.file)).Mode()
			if err := os.Chmod(c.file, c.mode); err != nil {
				t.Fatal(err)
			}
			s.nodeDirs = []string{t.TempDir()} // where it goes instead
			t.Log(name)
			n.reach(t, s, c.source).Close()
			if err := os.Chmod(c.file, before); err != nil {
				t.Fatal(err)
			}
			n.reach(t, s, "cache").Close()
		}
	})
}

// The helper checks its own file, too.
func TestCheckCache(t *testing.T) {
	s := self(t)
	home := must(filepath.EvalSymlinks(t.TempDir()))
	folder := filepath.Join(home, "remshell", s.Build)
	if err := os.MkdirAll(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	s.Path = filepath.Join(folder, "mpiexec")
	if err := os.WriteFile(s.Path, nil, 0o700); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{s.Path, folder, filepath.Dir(folder)} {
		if err := s.CheckCache(); err != nil {
			t.Errorf("as we make it: %v", err)
		}
		os.Chmod(name, 0o777)
		if err := s.CheckCache(); err == nil || !strings.Contains(err.Error(), "other users can change "+name) {
			t.Errorf("%s writable for all: %v", name, err)
		}
		os.Chmod(name, 0o700)
	}
}

// --ship-helper decides when the binary is sent.
func TestShip(t *testing.T) {
	eachShell(t, func(t *testing.T, n *node) {
		s := self(t)
		var e *Error
		if _, err := n.dial(t, s.WithDelivery("never")); !errors.As(err, &e) || e.Kind != KindMissing || !strings.Contains(e.Hint(), "--ship-helper") {
			t.Errorf("never, and it is not there: %v", err)
		}
		if _, err := os.Stat(filepath.Dir(n.cache(s))); err == nil {
			t.Error("something was made in the cache")
		}
		n.reach(t, s.WithDelivery("auto"), "sent").Close()
		n.reach(t, s.WithDelivery("never"), "cache").Close()
		n.reach(t, s.WithDelivery("always"), "sent").Close()
		n.reach(t, s.WithDelivery("auto"), "cache").Close()
		shared := installed(t, n.home)
		n.reach(t, shared.WithDelivery("never"), "shared").Close()
		n.reach(t, shared.WithDelivery("always"), "sent").Close()
	})
}

// A file in the cache that is not a regular file of this user is not run, and is replaced.
func TestProgramInCacheThatIsNotOurs(t *testing.T) {
	for name, plant := range map[string]func(file, other string) error{
		"of another user": func(file, other string) error { return os.Chown(file, 12345, -1) },
		"link":            func(file, other string) error { return errors.Join(os.Remove(file), os.Symlink(other, file)) },
		"empty":           func(file, other string) error { return os.Truncate(file, 0) },
		"not executable":  func(file, other string) error { return os.Chmod(file, 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, "/bin/sh")
			s := self(t)
			n.reach(t, s, "sent").Close()
			other := n.home + "/other"
			os.WriteFile(other, []byte("#!/bin/sh\n: >"+n.home+"/trapped\n"), 0o755)
			if err := plant(n.cache(s), other); chownRefused(err) {
				return
			} else if err != nil {
				t.Fatal(err)
			}
			n.reach(t, s, "sent").Close()
			if _, err := os.Stat(n.home + "/trapped"); err == nil {
				t.Error("the foreign program was run")
			}
			n.reach(t, s, "cache")
		})
	}
}

func TestXDGCacheHomeComesFirst(t *testing.T) {
	n := newNode(t, "/bin/sh")
	s := self(t)
	dir := t.TempDir() + "/a b"
	n.env = []string{"XDG_CACHE_HOME=" + dir}
	n.reach(t, s, "sent")
	if _, err := os.Stat(filepath.Join(dir, "remshell", s.Build, "mpiexec")); err != nil {
		t.Error(err)
	}
	n.reach(t, s, "cache")
}

// Two deliveries into one home directory at the same time both succeed.
func TestDeliveriesAtTheSameMoment(t *testing.T) {
	n := newNode(t, "/bin/sh")
	s := self(t)
	const both = 4
	asked := make(chan struct{}, both)
	begin := make(chan struct{})
	open := s.Open
	s.Open = func() (io.ReadCloser, error) {
		asked <- struct{}{}
		<-begin
		return open()
	}
	result := make(chan error, both)
	for range both {
		p := n.start(t)
		go func() {
			conn, err := s.deliverIn(longContext(t), p, time.Minute)
			if err == nil && conn.Source() != "sent" {
				err = errors.New("source " + conn.Source())
			}
			result <- err
		}()
	}
	for range both {
		<-asked
	}
	close(begin)
	for range both {
		if err := <-result; err != nil {
			t.Error(err)
		}
	}
	if left, _ := filepath.Glob(filepath.Dir(n.cache(s)) + "/.*"); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	n.reach(t, s, "cache")
}

// The launcher dies, or the node's shell is killed, in the middle of sending.
func TestHalfSent(t *testing.T) {
	for name, kill := range map[string]func(p *localCommand){
		"connection ends": func(p *localCommand) { p.in.Close() },
		"node dies":       func(p *localCommand) { syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) },
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, "/bin/sh")
			s := self(t)
			p := n.start(t)
			open := s.Open
			s.Open = func() (io.ReadCloser, error) {
				program, err := open()
				return &stopAfter{ReadCloser: program, left: 1 << 20, then: func() { kill(p) }}, err
			}
			if _, err := s.deliverIn(longContext(t), p, time.Minute); err == nil {
				t.Fatal("no error")
			}
			if _, err := os.Lstat(n.cache(s)); err == nil {
				t.Error("a program that is not complete has its name")
			}
			s.Open = open
			n.reach(t, s, "sent")
		})
	}
}

type stopAfter struct {
	io.ReadCloser
	left int
	then func()
}

func (r *stopAfter) Read(p []byte) (int, error) {
	n, err := r.ReadCloser.Read(p)
	if r.left -= n; r.left < 0 && r.then != nil {
		r.then()
		r.then = nil
	}
	return n, err
}

func TestOldLeftoversAreRemoved(t *testing.T) {
	n := newNode(t, "/bin/sh")
	s := self(t)
	dir := filepath.Dir(n.cache(s))
	os.MkdirAll(dir, 0o700)
	for name, age := range map[string]time.Duration{"/.new.old": 50 * time.Hour, "/.new.young": time.Hour} {
		os.WriteFile(dir+name, []byte("half"), 0o700)
		os.Chtimes(dir+name, time.Time{}, time.Now().Add(-age))
	}
	n.reach(t, s, "sent")
	left, _ := filepath.Glob(dir + "/.new*")
	if len(left) != 1 || filepath.Base(left[0]) != ".new.young" {
		t.Errorf("left: %v", left)
	}
}

func TestHelperInheritsNothingOfTheScript(t *testing.T) {
	eachShell(t, func(t *testing.T, n *node) {
		s := self(t)
		for _, source := range []string{"sent", "cache"} {
			conn := n.reach(t, s, source)
			io.WriteString(conn, "umask  \n")
			mask := make([]byte, 3)
			io.ReadFull(conn, mask)
			if string(mask) != "22\n" {
				t.Errorf("%s: umask %q, want 22", source, mask)
			}
			conn.Close()
			conn = n.reach(t, s, "cache")
			io.WriteString(conn, "environ\n")
			conn.link.(*localCommand).in.Close()
			environ, _ := io.ReadAll(conn)
			if strings.Contains(string(environ), "_rs_") {
				t.Errorf("%s: %s", source, environ)
			}
		}
	})
}

func TestOtherMachine(t *testing.T) {
	n := newNode(t, "/bin/sh")
	s := self(t)
	p := n.start(t)
	script := strings.Replace(s.deliveryScript("t"), unamePattern("linux", "amd64"), `Linux\ vax`, 1)
	io.WriteString(p, script)
	d := &delivery{self: s, host: "n1", Conn: newConn(p), shellReplied: true}
	if verb, text, err := d.readLine(); verb != "shell" || text != "" || err != nil {
		t.Fatalf("%s %s %v", verb, text, err)
	}
	verb, text, err := d.readLine()
	if verb != "fail" || text != "machine Linux x86_64" || err != nil {
		t.Fatalf("%s %s %v", verb, text, err)
	}
	e := d.failLineError(text).(*Error)
	if e.Kind != KindMachine || !strings.Contains(e.Why, "the node has the system Linux x86_64, but this mpiexec is for linux") {
		t.Errorf("%s: %v", e.Kind, e)
	}
}

func TestHelperCannotBeExecuted(t *testing.T) {
	n := newNode(t, "/bin/sh")
	s := self(t)
	n.reach(t, s, "sent").Close()
	os.WriteFile(n.cache(s), []byte("#!/nonexistent\n"), 0o700)
	_, err := n.dial(t, s)
	var e *Error
	if !errors.As(err, &e) || e.Step != "helper" || e.Kind != KindMissing {
		t.Errorf("error %v, want one of the step helper", err)
	}
}

// A copy that was damaged after its delivery fails at every start. The message says how to replace it.
func TestDamagedProgramInCache(t *testing.T) {
	n := newNode(t, "/bin/sh")
	s := self(t)
	n.reach(t, s, "sent").Close()
	os.WriteFile(n.cache(s), []byte("#!/bin/sh\nkill -SEGV $$\n"), 0o700)
	_, err := n.dial(t, s)
	var e *Error
	if !errors.As(err, &e) || !strings.Contains(e.Why, "the helper ended immediately after its start") ||
		e.Hint() != "if this repeats, the copy on the node may be damaged: copy it again with --ship-helper always" {
		t.Errorf("error %v", err)
	}
	n.reach(t, s.WithDelivery("always"), "sent").Close()
	n.reach(t, s, "cache").Close()
}

// A host that is silent, or sends a byte now and then, is given up when the time of its step is over. The
// message names the step, quotes the output and says what to check. The program is ended.
func TestSilence(t *testing.T) {
	const drip = "while printf x; do sleep 0.05; done"
	for _, c := range []struct {
		name, script string
		kind         Kind
		why, remedy  string
	}{
		{"silent", "exec sleep 1000", KindNoRoute, "n1: connect: the host did not answer within 0.5 s", ""},
		{"noise only", "echo Please wait; exec sleep 1000", KindShell, `n1: shell: the login shell did not run /bin/sh within 0.5 s; it printed "Please wait"`, "~/.cshrc (of csh)"},
		{"drips in the shell", "printf 'Loading '; " + drip, KindShell, `n1: shell: the login shell did not run /bin/sh within 0.5 s; it printed "Loading xx`, "--shell-timeout"},
		{"drips lines that are ours", `while printf '\036remshell shell\n'; do sleep 0.05; done`, KindNoRoute, "n1: deliver: /bin/sh did not report within 0.5 s whether mpiexec is there", "ssh n1 ls"},
		{"deaf after need", `printf '\036remshell need /x\n'; exec sleep 1000`, KindNoRoute, "n1: deliver: the copy of mpiexec arrives at less than 10 KB/s", "path="},
		{"drips after need", `printf '\036remshell need /x\n'; ` + drip, KindNoRoute, "n1: deliver: the copy of mpiexec arrives at less than 10 KB/s", "path="},
		{"needs it for ever", `while printf '\036remshell need /x\n'; do head -c 100000000 >/dev/null; done`, KindNoRoute, "n1: deliver: mpiexec was copied, but /bin/sh did not start it within 0.501 s", "--shell-timeout"},
		{"silent once it has the program", `printf '\036remshell need /x\n'; head -c 1048576 >/dev/null; exec sleep 1000`, KindNoRoute, "n1: deliver: mpiexec was copied, but /bin/sh did not start it within ", "ssh n1 ls"},
		{"helper silent", `printf '\036remshell run cache\n'; exec sleep 1000`, KindNoRoute, "n1: helper: the helper did not answer within 0.5 s", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newNode(t, "/bin/sh", "-c", c.script).start(t)
			begin := time.Now()
			s := self(t).WithLoginShell("/bin/csh")
			s.Size, s.Open = 1<<20, func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(make([]byte, 1<<20))), nil }
			if c.name == "needs it for ever" {
				s.Size = 10
			}
			_, err := s.deliverIn(longContext(t), p, 500*time.Millisecond)
			var e *Error
			if !errors.As(err, &e) || e.Kind != c.kind || !strings.HasPrefix(e.Error(), c.why) || !strings.Contains(e.Remedy, c.remedy) {
				t.Errorf("error %v (%+v), want %q", err, e, c.why)
			}
			if took := time.Since(begin); took > 5*time.Minute {
				t.Errorf("took %v", took)
			}
			if !p.waitFor(5 * time.Minute) {
				t.Error("the program lives")
			}
		})
	}
}

func TestCanceled(t *testing.T) {
	p := newNode(t, "/bin/sh", "-c", "exec sleep 1000").start(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := self(t).deliverIn(ctx, p, time.Minute)
	var e *Error
	if !errors.As(err, &e) || e.Kind != KindCanceled {
		t.Errorf("error %v, want one of kind %s", err, KindCanceled)
	}
}

func TestEndlessChatter(t *testing.T) {
	for name, script := range map[string]string{
		"lines":   "yes hello",
		"markers": "yes $(printf '\\036')",
		"no end":  "printf '\\036'; yes | tr -d '\\n'",
	} {
		t.Run(name, func(t *testing.T) {
			p := newNode(t, "/bin/sh", "-c", script).start(t)
			_, err := self(t).deliverIn(longContext(t), p, time.Minute)
			var e *Error
			if !errors.As(err, &e) || e.Kind != KindSession || !strings.Contains(e.Why, "too much text") {
				t.Errorf("error %v, want one of kind %s", err, KindSession)
			}
		})
	}
}

// The shell asks PBS to make its session part of the job. If that is not possible, it is reported once, and
// the helper starts all the same.
func TestAttaching(t *testing.T) {
	n := newNode(t, "/bin/sh")
	var reasons []string
	s := self(t).Attaching(batch.Named("pbs").Attach, "12[3].it's", func(host, why string) { reasons = append(reasons, why) })
	n.reach(t, s, "sent").Close()
	if len(reasons) != 1 || reasons[0] != "missing" {
		t.Errorf("%q", reasons)
	}
	reasons = nil
	near, far := net.Pipe()
	go io.Copy(io.Discard, far)
	go io.WriteString(far, strings.Repeat(lineMarker+"apart again\n", 3)+lineMarker+"fail never x\n")
	if _, err := s.deliverIn(t.Context(), pipeLink{near}, time.Minute); err == nil || len(reasons) != 1 || reasons[0] != "again" {
		t.Errorf("%v, reasons %q", err, reasons)
	}
}

// A pipeLink has no process behind it.
type pipeLink struct{ net.Conn }

func (pipeLink) ended(time.Duration) linkEnd { return linkEnd{exit: -1} }
func (pipeLink) stderr() string              { return "" }
func (pipeLink) verdict(int) Verdict         { return Verdict{} }
func (pipeLink) localAddr() net.Addr         { return nil }
func (pipeLink) silence() time.Duration      { return 0 }
