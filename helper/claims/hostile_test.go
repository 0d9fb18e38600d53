//go:build linux

package claims

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"remshell/job"
	"remshell/wire"
)

// enemy is a user who wants to harm others. He has no name.
const enemy = 60125

// shelf makes the directory of the enemy in the ledger.
func (d desk) shelf() string {
	d.Helper()
	if os.Geteuid() != 0 {
		d.Skip("needs root, to be two users")
	}
	name := fmt.Sprintf("%s-%d", d.book.Where(), enemy)
	if err := errors.Join(os.Mkdir(name, 0o755), os.Chown(name, enemy, enemy)); err != nil {
		d.Fatal(err)
	}
	return name
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
	shelf := d.shelf()
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
		surveyed := &wire.Surveyed{Use: job.Use{Who: fmt.Sprint("uid ", enemy), WhoUID: enemy}, Willing: []job.Willing{{UID: enemy + 1, User: fmt.Sprint("uid ", enemy+1)}}}
		done := make(chan bool)
		w.do(func() { w.nameListed(listed); w.nameSurveyed(surveyed, true); close(done) })
		<-done
		if listed.Claims[0].User != "ann" || listed.Claims[1].User != "eve" || listed.Tickets[0].User != "ann" || listed.Tickets[1].User != "" {
			t.Errorf("%+v", listed)
		}
		if surveyed.Use.Who != "ann" || surveyed.Willing[0].User != fmt.Sprint("uid ", enemy+1) {
			t.Errorf("%+v", surveyed)
		}
	}
	if text, _ := os.ReadFile(dir + "/asked"); string(text) != "asked\n" {
		t.Errorf("getent: %q", text)
	}
}
