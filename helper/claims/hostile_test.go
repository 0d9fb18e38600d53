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

// otherUID is a hostile user without an account.
const otherUID = 60125

// userDir makes the directory of another user in the ledger.
func (d testLedger) userDir(uid int) string {
	d.Helper()
	if os.Geteuid() != 0 {
		d.Skip("needs root, to be two users")
	}
	name := fmt.Sprintf("%s-%d", d.ledger.Path(), uid)
	if err := os.Mkdir(name, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		d.Fatal(err)
	}
	if err := os.Chown(name, uid, uid); err != nil {
		d.Fatal(err)
	}
	return name
}

// writeEntry writes an entry of another user and locks it until the test ends.
func (d testLedger) writeEntry(uid int, name string, entry any) {
	d.Helper()
	text, err := json.Marshal(entry)
	if err != nil {
		d.Fatal(err)
	}
	text = append([]byte(`{"file":"`+name+`",`), text[1:]...)
	f, err := os.Create(d.userDir(uid) + "/" + name)
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

// startClaimed starts a process of a user that is marked as a rank of a job.
func (d testLedger) startClaimed(uid int, id job.ID) *exec.Cmd {
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

// A signal goes only to ranks of the job's user, and not to processes of others with the same environment.
func TestSignalGoesToRanksOfOneUser(t *testing.T) {
	d := newTestLedger(t)
	const ann = 60126
	id := job.ID(fmt.Sprint("signalled-", os.Getpid()))
	for _, uid := range []int{ann, otherUID} {
		d.writeEntry(uid, "claim-0000000000000000-"+string(id), job.Claim{Job: id, UID: uid, Since: time.Now()})
	}
	hers, his := d.startClaimed(ann, id), d.startClaimed(otherUID, id)
	alert := func(uid int, number unix.Signal) *wire.JobSignaled {
		return d.request(&wire.SignalJob{Ledger: d.dir, Job: id, UID: uid, Signal: int(number)}).(*wire.JobSignaled)
	}
	if a := alert(ann, unix.SIGTERM); a.Ranks != 1 || a.Err != "" {
		t.Errorf("%+v", a)
	}
	hers.Wait()
	if a := alert(otherUID+9, unix.SIGTERM); a.Ranks != 0 {
		t.Errorf("a user without a claim: %+v", a)
	}
	if err := his.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("another user's process: %v", err)
	}
	if a := alert(otherUID, unix.SIGTERM); a.Ranks != 1 {
		t.Errorf("%+v", a)
	}
}

// A reply of another user than the job's owner does not count, and only the owner's job receives the request.
func TestReplyOfAnotherUser(t *testing.T) {
	d := newTestLedger(t)
	const ann = 60126
	for _, uid := range []int{ann, otherUID} {
		d.writeEntry(uid, "claim-0000000000000000-j", job.Claim{Job: "j", UID: uid, Since: time.Now()})
	}
	ours, over := context.WithCancel(t.Context())
	defer over()
	heard := make(chan ledger.FoundRequest, 9)
	go d.ledger.WatchRequests(ours, "j", func(a ledger.FoundRequest) { heard <- a })
	answered := make(chan *wire.ControlReply, 1)
	go func() {
		answered <- awaitReply(t.Context(), d.ledger, job.ControlRequest{Job: "j", Owner: ann, Verb: job.VerbSuspend, Since: time.Now()})
	}()
	var id string
	for ; id == ""; <-time.After(5 * time.Millisecond) {
		found, _ := filepath.Glob(fmt.Sprintf("%s-%d*/ask-j-*", d.ledger.Path(), os.Geteuid()))
		for _, name := range found {
			id = name[strings.LastIndex(name, "-")+1:]
		}
	}
	answer := func(uid int, text string) {
		d.writeEntry(uid, "answer-"+id, job.ControlReply{Job: "j", UID: uid, State: job.ReplyDone, Text: text})
	}
	answer(otherUID, "I did it")
	answer(ann, "she did it")
	if a := <-answered; a.State != job.ReplyDone || a.Text != "she did it" {
		t.Errorf("%+v", a)
	}
	if slip, err := d.ledger.PostRequest(job.ControlRequest{Job: "j", Owner: os.Geteuid(), Verb: job.VerbEnd, Since: time.Now()}); err != nil {
		t.Error(err)
	} else if a := <-heard; a.ID != slip.ID {
		t.Errorf("what is for another user's job was heard: %+v", a)
	}
}

// request passes a message to a helper of our user and returns its reply.
func (d testLedger) request(m wire.Message) wire.Message {
	answers := make(chan wire.Message, 9)
	w := New(os.DirFS("/"), nil, func(m wire.Message) error { answers <- m; return nil }, nil)
	defer w.Close()
	w.HandleMessage(m)
	return <-answers
}

// If a user has too many files, that user's entries are not listed, and this is reported. All other jobs are listed, and can be signaled.
func TestOneUserCannotHideJobsOfOthers(t *testing.T) {
	d := newTestLedger(t)
	shelf := d.userDir(otherUID)
	id := job.ID(fmt.Sprint("hidden-", os.Getpid()))
	d.claim(d.newWorker(), id, "a", 0, 3)
	first := shelf + "/claim-0"
	if err := os.WriteFile(first, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	for i := range 10_050 {
		if err := unix.Link(first, fmt.Sprint(shelf, "/claim-", i+1)); err != nil {
			t.Fatal(err)
		}
	}
	listed := d.request(&wire.ListLedger{Ledger: d.dir, Job: id}).(*wire.LedgerListed)
	if len(listed.Claims) != 1 || listed.Err != "" || !strings.Contains(listed.Notice, fmt.Sprintf("the list of jobs is incomplete: %s has too many files of uid %d", d.dir, otherUID)) {
		t.Errorf("%d claims, error %q, notice %q", len(listed.Claims), listed.Err, listed.Notice)
	}
	alerted := d.request(&wire.SignalJob{Ledger: d.dir, Job: id, Signal: int(unix.SIGCONT)}).(*wire.JobSignaled)
	if alerted.Err != "" {
		t.Errorf("a signal: %q", alerted.Err)
	}
}

// A user without an account in /etc/passwd has the name from the node's directory service, and not the one in the claim.
func TestUsersOfADirectoryServiceHaveNames(t *testing.T) {
	dir := t.TempDir()
	script := fmt.Sprintf("#!/bin/sh\necho asked >>%s/asked\necho ann:x:%d:1::/:/bin/sh\n", dir, otherUID)
	if err := os.WriteFile(dir+"/getent", []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":/usr/bin:/bin")
	w := New(os.DirFS("/"), nil, func(wire.Message) error { return nil }, nil)
	defer w.Close()
	for range 2 {
		listed := &wire.LedgerListed{Claims: []job.Claim{{UID: otherUID}, {UID: 5, User: "eve"}}, Tickets: []job.Ticket{{UID: otherUID}, {UID: otherUID + 1}}}
		surveyed := &wire.Surveyed{Occupancy: job.Occupancy{TopUser: fmt.Sprint("uid ", otherUID), TopUID: otherUID}}
		done := make(chan bool)
		w.runTask(func() { w.nameListed(listed); w.nameSurveyed(&surveyed.Occupancy); close(done) })
		<-done
		if listed.Claims[0].User != "ann" || listed.Claims[1].User != "eve" || listed.Tickets[0].User != "ann" || listed.Tickets[1].User != "" {
			t.Errorf("%+v", listed)
		}
		if surveyed.Occupancy.TopUser != "ann" {
			t.Errorf("%+v", surveyed)
		}
	}
	if text, _ := os.ReadFile(dir + "/asked"); string(text) != "asked\n" {
		t.Errorf("getent: %q", text)
	}
}

// However many entries a job has, and however many processes hold them, the reply to an eviction can be sent.
func TestManyEvictionsFitIntoReply(t *testing.T) {
	done := make([]ledger.EvictionResult, 10_000)
	for i := range done {
		done[i] = ledger.EvictionResult{Kind: "claim", User: strings.Repeat("u", 256), PIDs: make([]int, 5000)}
	}
	done[9000].StillHeld = true
	texts, left := evictionTexts(done, job.ID(strings.Repeat("j", 40)))
	if len(texts) != maxEvictions+1 || !left || !strings.HasSuffix(texts[0], ", 0 and 4984 more") || !strings.Contains(texts[maxEvictions], " has 9000 more entries") {
		t.Errorf("%d texts, left %v: %q ... %q", len(texts), left, texts[0], texts[len(texts)-1])
	}
	here, there := net.Pipe()
	launcher, helper := wire.NewConn(here, wire.Launcher), wire.NewConn(there, wire.Helper)
	defer launcher.Abandon()
	if err := helper.Send(&wire.Evicted{Done: texts, Incomplete: left}); err != nil {
		t.Fatal(err)
	}
	if m, err := launcher.Recv(); err != nil || len(m.(*wire.Evicted).Done) != len(texts) {
		t.Errorf("%.100v, %v", m, err)
	}
	if texts, left := evictionTexts([]ledger.EvictionResult{{Kind: "ticket", User: "ann", PIDs: []int{4, 5}}}, "j"); left || !slices.Equal(texts, []string{"removed the ticket of job j of user ann; ended process 4, 5"}) {
		t.Errorf("%q, %v", texts, left)
	}
}

// Requesters that are not authorized have at most a few hundred replies in the ledger, and the end of the session does not wait for them.
func TestRefusedRequestsCostLittle(t *testing.T) {
	w, _, dir := newRequestWorker(t)
	found := ledger.FoundRequest{ControlRequest: job.ControlRequest{Job: "j", UID: otherUID, Verb: job.VerbEnd}}
	var last int
	done := make(chan bool)
	w.runTask(func() {
		for i := range 2 * maxShownReplies {
			found.ID = fmt.Sprintf("%d-%016x", otherUID, i)
			w.handleRequest(found)
		}
		last = len(w.requests.finalReplies)
		close(done)
	})
	<-done
	answers, err := filepath.Glob(dir.Path() + "-*/answer-*")
	if err != nil || len(answers) != maxShownReplies || last != 0 {
		t.Errorf("%d answers, %d are waited for, %v", len(answers), last, err)
	}
}
