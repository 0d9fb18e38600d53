package ledger

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"remshell/job"
)

// An actor is this test binary as another process, maybe of another user. It reads commands, one
// per line, and answers each with a line.
type actor struct {
	t    *testing.T
	cmd  *exec.Cmd
	to   io.WriteCloser
	from *bufio.Scanner
}

const actorEnv = "LEDGER_TEST_ACTOR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(actorEnv); dir != "" {
		act(dir)
		return
	}
	os.Exit(m.Run())
}

// stranger is the uid of a user without an account.
const stranger = 60123

// newActor starts a process that uses a ledger. uid 0 means the user of the test.
func newActor(t *testing.T, dir string, uid uint32) *actor {
	t.Helper()
	cmd := exec.Command("/proc/self/exe") // other users may not be able to open its path
	cmd.Env = append(os.Environ(), actorEnv+"="+dir)
	cmd.Dir, cmd.Stderr = "/", os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if uid != 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uid, Gid: uid}
	}
	to, err1 := cmd.StdinPipe()
	from, err2 := cmd.StdoutPipe()
	if err := errors.Join(err1, err2, cmd.Start()); err != nil {
		t.Fatal(err)
	}
	a := &actor{t, cmd, to, bufio.NewScanner(from)}
	t.Cleanup(a.kill)
	return a
}

// kill sends SIGKILL, and waits for the end.
func (a *actor) kill() {
	a.cmd.Process.Kill()
	a.cmd.Wait()
}

func (a *actor) tell(line ...any) {
	a.t.Helper()
	if _, err := fmt.Fprintln(a.to, line...); err != nil {
		a.t.Errorf("telling %v: %v", line, err)
	}
}

// hear returns the next line, or "" if the actor has ended.
func (a *actor) hear() string {
	if !a.from.Scan() {
		return ""
	}
	return a.from.Text()
}

func (a *actor) ask(line ...any) string {
	a.t.Helper()
	a.tell(line...)
	return a.hear()
}

// want checks the answer to a command, or the next line if the command is empty.
func (a *actor) want(want string, line ...any) {
	a.t.Helper()
	if len(line) > 0 {
		a.tell(line...)
	}
	if got := a.hear(); got != want {
		a.t.Fatalf("%v: got %q, want %q", line, got, want)
	}
}

// act is the main function of an actor.
func act(dir string) {
	b, err := Open(dir, "this node")
	if err != nil {
		fmt.Println(err)
		return
	}
	b.cpus, b.ReadTime = manyCPUs, patience
	s := &stage{b: b}
	for lines := bufio.NewScanner(os.Stdin); lines.Scan(); {
		words := strings.Fields(lines.Text())
		fmt.Println(s.play(words[0], words[1:]))
	}
}

type stage struct {
	b        *Dir
	held     *HeldClaim
	place    *QueuePlace
	decision *DecisionLock
	name     *HeldName
	keep     []int // descriptors
}

// play executes one command and returns "ok" or the error.
func (s *stage) play(what string, args []string) any {
	ctx := context.Background()
	switch what {
	case "take": // JOB CPU,CPU [USER]
		var err error
		c := claimOf(args[0], numbers(args[1])...)
		if len(args) > 2 {
			c.User = args[2]
		}
		s.held, err = s.b.TakeClaim(ctx, c, apart(numbers(args[1])))
		if err == nil {
			err = s.held.Warning
		}
		return outcome(err)
	case "contend": // CPU TIMES UMPIRE: answers how often it got the CPU
		times, _ := strconv.Atoi(args[1])
		return s.contend(numbers(args[0]), times, args[2])
	case "release":
		return outcome(s.held.Release())
	case "claims":
		claims, err := s.b.Claims()
		if err != nil {
			return err
		}
		return strings.Join(jobs(claims), " ")
	case "enqueue": // JOB [USER]
		var err error
		ticket := ticketOf(args[0])
		if len(args) > 1 {
			ticket.User = args[1]
		}
		if s.place, err = s.b.Enqueue(ticket); err != nil {
			return err
		}
		return s.place.Ticket.Number
	case "join": // JOB, with the decision lock, as mpiexec does
		g, err := s.b.LockDecision(ctx)
		if err != nil {
			return err
		}
		defer g.Unlock()
		return s.play("enqueue", args)
	case "turn": // prints the number ahead on every change, and then "turn"
		err := s.place.WaitForTurn(ctx, func(n int) { fmt.Println("ahead", n) })
		if err != nil {
			return err
		}
		return "turn"
	case "lock":
		var err error
		s.b.HolderWait = 50 * time.Millisecond
		s.decision, err = s.b.LockDecision(ctx)
		return outcome(err)
	case "open":
		s.decision.Unlock()
		return "ok"
	case "takeLocks": // TIMES UMPIRE
		times, _ := strconv.Atoi(args[0])
		return outcome(s.takeLocks(times, args[1]))
	case "keep-lock": // a decision lock that is never released
		l, err := s.b.newUnnamed()
		if err == nil {
			name := kindLock + randomName()
			err = l.writeAndPublish(name, append(fileStart(name), '}'))
		}
		return outcome(err)
	case "userdir": // answers its path
		fd, own, err := s.b.openOwnDir()
		if err != nil {
			return err
		}
		unix.Close(fd)
		return filepath.Join(s.b.path, own.name)
	case "spawn": // answers the child's PID
		child := exec.Command("sleep", "100")
		if err := child.Start(); err != nil {
			return err
		}
		return child.Process.Pid
	case "heir": // a child that ignores signals and also has the claim; answers its PID
		fd, err := s.held.DupFile()
		if err != nil {
			return err
		}
		child := exec.Command("sh", "-c", "trap '' TERM; while :; do sleep 100; done")
		child.ExtraFiles = []*os.File{os.NewFile(uintptr(fd), "claim")}
		if err := child.Start(); err != nil {
			return err
		}
		return child.Process.Pid
	case "evict": // JOB UID
		_, err := s.b.Evict(ctx, job.Key{Job: job.ID(args[0]), UID: numbers(args[1])[0]})
		return outcome(err)
	case "evict-child": // JOB: of a process of our own user
		a := exec.Command("/proc/self/exe")
		a.Env, a.Dir = append(os.Environ(), actorEnv+"="+s.b.path), "/"
		to, _ := a.StdinPipe()
		from, _ := a.StdoutPipe()
		if err := a.Start(); err != nil {
			return err
		}
		fmt.Fprintln(to, "take", args[0], "5")
		bufio.NewReader(from).ReadString('\n')
		done, err := s.b.Evict(ctx, job.Key{Job: job.ID(args[0]), UID: os.Geteuid()})
		if err == nil && (len(done) != 1 || !slices.Equal(done[0].PIDs, []int{a.Process.Pid})) {
			err = fmt.Errorf("%+v", done)
		}
		a.Wait()
		return outcome(err)
	case "publish", "publish-for-all": // NAME PORT
		var err error
		s.name, err = s.b.PublishName(ctx, nameOf(args[0], args[1], false), what == "publish")
		return outcome(err)
	case "publish-many": // NAME TIMES UMPIRE: answers how often it got the name
		times, _ := strconv.Atoi(args[1])
		return s.publishMany(args[0], times, args[2])
	case "unpublish":
		return outcome(s.name.Remove())
	case "find": // NAME ["all"]: answers the port
		n, ok, err := s.b.FindName([]byte(args[0]), len(args) > 1)
		if err != nil || !ok {
			return fmt.Sprint(ok, err)
		}
		return string(n.Port)
	case "leave":
		return outcome(s.place.Leave())
	}
	return outcome(s.evil(what, args))
}

// contend takes and releases CPUs many times. A file exists while it has them.
func (s *stage) contend(cpus []int, times int, umpire string) any {
	wins := 0
	for range times {
		h, err := s.b.TakeClaim(context.Background(), claimOf("j", cpus...), apart(cpus))
		if err == errTaken {
			continue
		} else if err != nil {
			return err
		}
		wins++
		f, err := os.OpenFile(umpire, os.O_CREATE|os.O_EXCL, 0o600)
		if err = errors.Join(err, f.Close(), os.Remove(umpire), h.Release()); err != nil {
			return err
		}
	}
	return wins
}

// publishMany publishes and removes a name many times. A file exists while it has the name.
func (s *stage) publishMany(name string, times int, umpire string) any {
	wins := 0
	for range times {
		h, err := s.b.PublishName(context.Background(), nameOf(name, "p", false), true)
		if err == ErrNameTaken {
			continue
		} else if err != nil {
			return err
		}
		wins++
		f, err := os.OpenFile(umpire, os.O_CREATE|os.O_EXCL, 0o600)
		if err = errors.Join(err, f.Close(), os.Remove(umpire), h.Remove()); err != nil {
			return err
		}
	}
	return wins
}

// takeLocks takes the decision lock many times. A file exists while it has the lock.
func (s *stage) takeLocks(times int, umpire string) error {
	for range times {
		g, err := s.b.LockDecision(context.Background())
		if err != nil {
			return err
		}
		if g.Warning != nil {
			g.Unlock()
			return g.Warning
		}
		f, err := os.OpenFile(umpire, os.O_CREATE|os.O_EXCL, 0o600)
		err = errors.Join(err, f.Close(), os.Remove(umpire))
		g.Unlock()
		if err != nil {
			return err
		}
	}
	return nil
}

// evil executes commands that only a malicious user would.
func (s *stage) evil(what string, args []string) error {
	switch what {
	case "flood": // PREFIX COUNT
		return flood(args[0], numbers(args[1])[0])
	case "unflood": // PREFIX
		names, err := filepath.Glob(args[0] + "*")
		for _, name := range names {
			if _, number, _ := strings.Cut(filepath.Base(name), "-"); !strings.Contains(number, "-") {
				err = errors.Join(err, os.Remove(name))
			}
		}
		return err
	case "fill":
		return s.fill()
	case "fillup": // PREFIX: until nothing fits
		for i := 0; ; i++ {
			if err := os.WriteFile(fmt.Sprint(args[0], i), make([]byte, 4096), 0o644); err != nil {
				return err
			}
		}
	case "hide": // the processes of others
		s.b.procDir = "/nonexistent"
		return nil
	case "others":
		_, err := s.b.ReadOthers(nil)
		return err
	case "remove":
		return os.Remove(args[0])
	case "rename":
		return os.Rename(args[0], args[1])
	case "link":
		return os.Link(args[0], args[1])
	case "symlink":
		return os.Symlink(args[0], args[1])
	case "mkdir":
		return os.Mkdir(args[0], 0o755)
	case "close":
		return os.Chmod(args[0], 0o600)
	case "fifo":
		return unix.Mkfifo(args[0], 0o666)
	case "write": // FILE TEXT: kept open and locked as a claim would be
		return s.lock(args[0], unpack(args[1]), os.O_CREATE|os.O_RDWR, unix.F_WRLCK, unix.F_OFD_SETLK)
	case "readlock":
		return s.lock(args[0], "", os.O_RDONLY, unix.F_RDLCK, unix.F_OFD_SETLK)
	case "await":
		return s.lock(args[0], "", os.O_RDONLY, unix.F_RDLCK, unix.F_OFD_SETLKW)
	case "writelock":
		return s.lock(args[0], "", os.O_RDWR, unix.F_WRLCK, unix.F_OFD_SETLK)
	case "keep": // open
		fd, err := unix.Open(args[0], unix.O_RDONLY|unix.O_CLOEXEC, 0)
		s.keep = append(s.keep, fd)
		return err
	case "flock":
		f, err := unix.Open(args[0], unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		s.keep = append(s.keep, f)
		return unix.Flock(f, unix.LOCK_EX)
	}
	return errors.New("no such play: " + what)
}

// pack turns a text into one word.
func pack(text []byte) string { return strings.ReplaceAll(string(text), " ", "\x01") }

func unpack(word string) string { return strings.ReplaceAll(word, "\x01", " ") }

func (s *stage) close() {
	for _, fd := range s.keep {
		unix.Close(fd)
	}
}

func (s *stage) lock(name, text string, flags int, kind int16, how int) error {
	fd, err := unix.Open(name, flags|unix.O_CLOEXEC, 0o644)
	if err != nil {
		return err
	}
	s.keep = append(s.keep, fd)
	if text != "" {
		if _, err := unix.Write(fd, []byte(text)); err != nil {
			return err
		}
	}
	return unix.FcntlFlock(uintptr(fd), how, &unix.Flock_t{Type: kind})
}

func outcome(err error) any {
	if err == nil {
		return "ok"
	}
	return err
}

func numbers(list string) (n []int) {
	for text := range strings.SplitSeq(list, ",") {
		i, _ := strconv.Atoi(text)
		n = append(n, i)
	}
	return n
}

// claimOf returns a claim of this process, with a rank on each CPU.
func claimOf(id string, cpus ...int) Claim {
	c := Claim{Job: job.ID(id), UID: os.Geteuid(), User: "me", LauncherHost: "here", Node: "n1", Nodes: 1,
		Size: len(cpus), Since: time.Now(), Command: "./program"}
	for rank, cpu := range cpus {
		c.Ranks = append(c.Ranks, job.ClaimedRank{Rank: rank, CPUs: []int{cpu}})
	}
	return c
}

func nameOf(name, port string, once bool) Name {
	return Name{Job: "j", UID: os.Geteuid(), Name: []byte(name), Port: []byte(port), Once: once}
}

func ticketOf(id string) Ticket {
	return Ticket{Job: job.ID(id), UID: os.Geteuid(), User: "me", LauncherHost: "here", Size: 4, Since: time.Now(), Summary: "4 ranks"}
}

var errTaken = errors.New("taken")

// apart is a fits function that accepts a claim if none of its CPUs is used.
func apart(cpus []int) func(OtherClaims) error {
	return func(others OtherClaims) error {
		u := others.Occupancy()
		for _, cpu := range cpus {
			if u.ExclusivelyHeld || slices.Contains(u.BusyCPUs, cpu) {
				return errTaken
			}
		}
		return nil
	}
}

func always(OtherClaims) error { return nil }

func jobs(claims []Claim) []string {
	var ids []string
	for _, c := range claims {
		ids = append(ids, string(c.Job))
	}
	return ids
}

// shared makes a directory like /var/tmp.
func shared(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	if err := errors.Join(os.Chmod(filepath.Dir(dir), 0o755), os.Chmod(dir, 0o777|os.ModeSticky)); err != nil {
		t.Fatal(err)
	}
	return dir
}

func open(t testing.TB, dir string) *Dir {
	t.Helper()
	b, err := Open(dir, "this node")
	if err != nil {
		t.Fatal(err)
	}
	b.cpus, b.ReadTime = manyCPUs, patience
	t.Cleanup(func() { b.Close() })
	return b
}

// patience is the ReadTime of tests that do not test it.
const patience = 5 * time.Minute

// manyCPUs is the number of CPUs of the node in these tests.
func manyCPUs() int { return 64 }

func wantClaims(t *testing.T, b *Dir, want ...string) {
	t.Helper()
	claims, err := b.Claims()
	if err != nil {
		t.Fatal(err)
	}
	if got := jobs(claims); !slices.Equal(got, want) {
		t.Fatalf("claims of %q, want %q", got, want)
	}
}

// files returns the files of a kind in the ledger, with or without a holder.
func files(t *testing.T, b *Dir, kind string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(b.path, b.prefix+"*", kind+"*"))
	if err != nil {
		t.Fatal(err)
	}
	return found
}
