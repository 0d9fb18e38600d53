//go:build linux

package claims

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"remshell/job"
	"remshell/ledger"
	"remshell/wire"
)

// enemy is a user who wants to harm others. He has no name.
const enemy = 60125

// shelf makes the directory of another user in the ledger.
func (d desk) shelf(uid int) string {
	d.Helper()
	if os.Geteuid() != 0 {
		d.Skip("needs root, to be two users")
	}
	name := fmt.Sprintf("%s-%d", d.book.Where(), uid)
	if err := os.Mkdir(name, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		d.Fatal(err)
	}
	if err := os.Chown(name, uid, uid); err != nil {
		d.Fatal(err)
	}
	return name
}

// plant writes an entry of another user and locks it until the test ends.
func (d desk) plant(uid int, name string, entry any) {
	d.Helper()
	text, err := json.Marshal(entry)
	if err != nil {
		d.Fatal(err)
	}
	text = append([]byte(`{"file":"`+name+`",`), text[1:]...)
	f, err := os.Create(d.shelf(uid) + "/" + name)
	if err != nil {
		d.Fatal(err)
	}
	d.Cleanup(func() { f.Close() })
	_, err = f.Write(text)
	lock := unix.Flock_t{Type: unix.F_WRLCK}
	if err := errors.Join(err, f.Chown(uid, uid), f.Chmod(0o644), unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &lock)); err != nil {
		d.Fatal(err)
	}
}

// runs starts a process of a user that is marked as a rank of a job.
func (d desk) runs(uid int, id job.ID) *exec.Cmd {
	d.Helper()
	cmd := exec.Command("/bin/sleep", "1000")
	cmd.Env = []string{"MPIEXEC_JOBID=" + string(id)}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(uid)}, Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		d.Fatal(err)
	}
	d.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	return cmd
}

// A signal goes to the ranks of the user whose job is meant, and not to processes of others that look like them.
func TestASignalIsForTheRanksOfOneUser(t *testing.T) {
	d := newDesk(t)
	const ann = 60126
	id := job.ID(fmt.Sprint("signalled-", os.Getpid()))
	for _, uid := range []int{ann, enemy} {
		d.plant(uid, "claim-0000000000000000-"+string(id), job.Claim{Job: id, UID: uid, Since: time.Now()})
	}
	hers, his := d.runs(ann, id), d.runs(enemy, id)
	alert := func(uid int, number unix.Signal) *wire.Alerted {
		return d.asks(&wire.Alert{Ledger: d.dir, Job: id, UID: uid, Number: int(number)}).(*wire.Alerted)
	}
	if a := alert(ann, unix.SIGTERM); a.Ranks != 1 || a.Err != "" {
		t.Errorf("%+v", a)
	}
	hers.Wait()
	if a := alert(enemy+9, unix.SIGTERM); a.Ranks != 0 {
		t.Errorf("a user without a claim: %+v", a)
	}
	if err := his.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("another user's process: %v", err)
	}
	if a := alert(enemy, unix.SIGTERM); a.Ranks != 1 {
		t.Errorf("%+v", a)
	}
}

// An answer of another user than the one whose job is asked does not count, and nobody but that user's job hears it.
func TestAnAnswerOfAnotherUser(t *testing.T) {
	d := newDesk(t)
	const ann = 60126
	for _, uid := range []int{ann, enemy} {
		d.plant(uid, "claim-0000000000000000-j", job.Claim{Job: "j", UID: uid, Since: time.Now()})
	}
	ours, over := context.WithCancel(t.Context())
	defer over()
	heard := make(chan ledger.FoundAsk, 9)
	go d.book.HearAsks(ours, "j", func(a ledger.FoundAsk) { heard <- a })
	answered := make(chan *wire.Answer, 1)
	go func() {
		answered <- awaitAnswer(t.Context(), d.book, job.Ask{Job: "j", Owner: ann, Verb: job.AskSuspend, Since: time.Now()})
	}()
	var id string
	for ; id == ""; <-time.After(5 * time.Millisecond) {
		found, _ := filepath.Glob(fmt.Sprintf("%s-%d*/ask-j-*", d.book.Where(), os.Geteuid()))
		for _, name := range found {
			id = name[strings.LastIndex(name, "-")+1:]
		}
	}
	answer := func(uid int, text string) {
		d.plant(uid, "answer-"+id, job.Answer{Job: "j", UID: uid, State: job.AskDone, Text: text})
	}
	answer(enemy, "I did it")
	answer(ann, "she did it")
	if a := <-answered; a.State != job.AskDone || a.Text != "she did it" {
		t.Errorf("%+v", a)
	}
	if slip, err := d.book.Ask(job.Ask{Job: "j", Owner: os.Geteuid(), Verb: job.AskEnd, Since: time.Now()}); err != nil {
		t.Error(err)
	} else if a := <-heard; a.ID != slip.ID {
		t.Errorf("what is for another user's job was heard: %+v", a)
	}
}

// asks gives a message to a helper of our user and returns its answer.
func (d desk) asks(m wire.Message) wire.Message {
	answers := make(chan wire.Message, 9)
	w := New(os.DirFS("/"), nil, func(m wire.Message) error { answers <- m; return nil }, nil)
	defer w.Close()
	w.Take(m)
	return <-answers
}

// Of a user who has too many files nothing is listed, and that is said. All other jobs are listed, and can be signalled.
func TestOneUserDoesNotHideTheJobsOfOthers(t *testing.T) {
	d := newDesk(t)
	shelf := d.shelf(enemy)
	id := job.ID(fmt.Sprint("hidden-", os.Getpid()))
	d.claims(d.helper(), id, "a", 0, 3)
	first := shelf + "/claim-0"
	if err := os.WriteFile(first, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for i := range 10_050 {
		if err := unix.Link(first, fmt.Sprint(shelf, "/claim-", i+1)); err != nil {
			t.Fatal(err)
		}
	}
	listed := d.asks(&wire.List{Ledger: d.dir, Job: id}).(*wire.Listed)
	if len(listed.Claims) != 1 || listed.Err != "" || !strings.Contains(listed.Notice, fmt.Sprintf("not all jobs are listed: %s has too much of uid %d", d.dir, enemy)) {
		t.Errorf("%d claims, error %q, notice %q", len(listed.Claims), listed.Err, listed.Notice)
	}
	alerted := d.asks(&wire.Alert{Ledger: d.dir, Job: id, Number: int(unix.SIGCONT)}).(*wire.Alerted)
	if alerted.Err != "" {
		t.Errorf("a signal: %q", alerted.Err)
	}
}

// A user without an account in /etc/passwd has the name that the node's directory service gives him, and not what he says.
func TestUsersOfADirectoryServiceHaveNames(t *testing.T) {
	dir := t.TempDir()
	script := fmt.Sprintf("#!/bin/sh\necho asked >>%s/asked\necho ann:x:%d:1::/:/bin/sh\n", dir, enemy)
	if err := os.WriteFile(dir+"/getent", []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":/usr/bin:/bin")
	w := New(os.DirFS("/"), nil, func(wire.Message) error { return nil }, nil)
	defer w.Close()
	for range 2 {
		listed := &wire.Listed{Claims: []job.Claim{{UID: enemy}, {UID: 5, User: "eve"}}, Tickets: []job.Ticket{{UID: enemy}, {UID: enemy + 1}}}
		surveyed := &wire.Surveyed{Use: job.Use{Who: fmt.Sprint("uid ", enemy), WhoUID: enemy}}
		done := make(chan bool)
		w.do(func() { w.nameListed(listed); w.nameSurveyed(&surveyed.Use); close(done) })
		<-done
		if listed.Claims[0].User != "ann" || listed.Claims[1].User != "eve" || listed.Tickets[0].User != "ann" || listed.Tickets[1].User != "" {
			t.Errorf("%+v", listed)
		}
		if surveyed.Use.Who != "ann" {
			t.Errorf("%+v", surveyed)
		}
	}
	if text, _ := os.ReadFile(dir + "/asked"); string(text) != "asked\n" {
		t.Errorf("getent: %q", text)
	}
}

// However many entries a job has, and however many processes hold them, what is told of their end is a message that can be sent.
func TestManyEvictionsCanBeTold(t *testing.T) {
	done := make([]ledger.Eviction, 10_000)
	for i := range done {
		done[i] = ledger.Eviction{Kind: "claim", User: strings.Repeat("u", 256), PIDs: make([]int, 5000)}
	}
	done[9000].Left = true
	texts, left := deeds(done, job.ID(strings.Repeat("j", 40)))
	if len(texts) != mostEvicted+1 || !left || !strings.HasSuffix(texts[0], ", 0 and 4984 more") || !strings.HasPrefix(texts[mostEvicted], "and 9000 more entries") {
		t.Errorf("%d texts, left %v: %q ... %q", len(texts), left, texts[0], texts[len(texts)-1])
	}
	here, there := net.Pipe()
	launcher, helper := wire.NewConn(here, wire.Launcher), wire.NewConn(there, wire.Helper)
	defer launcher.Abandon()
	if err := helper.Send(&wire.Evicted{Done: texts, Left: left}); err != nil {
		t.Fatal(err)
	}
	if m, err := launcher.Recv(); err != nil || len(m.(*wire.Evicted).Done) != len(texts) {
		t.Errorf("%.100v, %v", m, err)
	}
	if texts, left := deeds([]ledger.Eviction{{Kind: "ticket", User: "ann", PIDs: []int{4, 5}}}, "j"); left || !slices.Equal(texts, []string{"the ticket of job j, of ann, is removed; ended process 4, 5"}) {
		t.Errorf("%q, %v", texts, left)
	}
}

// Whoever is not obeyed has at most a few hundred answers of ours in the ledger, and nobody waits for him at the end.
func TestTheRefusedCostLittle(t *testing.T) {
	w, _, dir := asked(t)
	found := ledger.FoundAsk{Ask: job.Ask{Job: "j", UID: enemy, Verb: job.AskEnd}}
	var last int
	done := make(chan bool)
	w.do(func() {
		for i := range 2 * mostGiven {
			found.ID = fmt.Sprintf("%d-%016x", enemy, i)
			w.asked(found)
		}
		last = len(w.asks.last)
		close(done)
	})
	<-done
	answers, err := filepath.Glob(dir.Where() + "-*/answer-*")
	if err != nil || len(answers) != mostGiven || last != 0 {
		t.Errorf("%d answers, %d are waited for, %v", len(answers), last, err)
	}
}
