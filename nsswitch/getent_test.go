package nsswitch

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// getent replaces getent by a script.
func getent(t *testing.T, script string) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(dir+"/getent", []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":/usr/bin:/bin")
}

// directory is a directory service that has one user and one group.
const directory = `case "$*" in
"passwd ann"|"passwd 70001") echo ann:x:70001:70001::/home/ann:/bin/sh;;
"group chem") echo chem:x:70002:;;
*) exit 2;;
esac`

// Users and groups that only a directory service has are found, and others are not.
func TestFinders(t *testing.T) {
	getent(t, directory)
	user, group := IDFinders(time.Minute)
	for _, test := range []struct {
		find       func(string) (int, error)
		name, want string
	}{
		{user, "root", "0 <nil>"},
		{group, "root", "0 <nil>"},
		{user, "ann", "70001 <nil>"},
		{group, "chem", "70002 <nil>"},
		{user, "chem", `0 no user "chem" exists here`},
		{group, "nobody here", `0 no group "nobody here" exists here`},
		{user, "--help", `0 no user "--help" exists here`},
	} {
		id, err := test.find(test.name)
		if got := fmt.Sprint(id, err); got != test.want {
			t.Errorf("%s: %s, want %s", test.name, got, test.want)
		}
	}
	t.Setenv("PATH", t.TempDir()) // no getent
	if _, err := user("ann"); err == nil || err.Error() != `no user "ann" exists here` {
		t.Error(err)
	}
}

// A directory service that hangs is waited for once, and not for each name.
func TestFindersOfADirectoryThatHangs(t *testing.T) {
	getent(t, "exec sleep 1000")
	user, group := IDFinders(100 * time.Millisecond)
	began := time.Now()
	for range 1000 {
		_, err := user("ann")
		_, err2 := group("chem")
		if err == nil || err2 == nil || !strings.Contains(err.Error(), `the user "ann" cannot be looked up here (getent did not answer within `) {
			t.Fatal(err, err2)
		}
	}
	if took := time.Since(began); took > time.Minute {
		t.Errorf("it took %v", took)
	}
}

func TestUser(t *testing.T) {
	getent(t, directory)
	for uid, want := range map[int]string{0: "user root", 70001: "user ann", 70003: "uid 70003"} {
		if got := UserText(uid); got != want {
			t.Errorf("%d: %s, want %s", uid, got, want)
		}
	}
}

// Endless output is cut off, and a program that hangs is killed with all its processes.
func TestGetent(t *testing.T) {
	getent(t, "while :; do echo ann:x:8:8::/:; done")
	if answer, err := Getent(t.Context(), 10*time.Minute, "passwd", "ann"); len(answer) != maxAnswer || !errors.Is(err, errAnswerTooLong) {
		t.Errorf("%d bytes, %v", len(answer), err)
	}
	getent(t, "echo ann; sleep 1000")
	if answer, err := Getent(t.Context(), time.Second, "passwd", "ann"); answer != "ann\n" || err == nil {
		t.Errorf("%q, %v", answer, err)
	}
	getent(t, "echo ann; exit 2")
	if answer, err := Getent(t.Context(), time.Minute, "passwd", "ann", "ben"); answer != "ann\n" || err != nil {
		t.Errorf("%q, %v", answer, err)
	}
	t.Setenv("PATH", t.TempDir())
	if _, err := Getent(t.Context(), time.Minute, "passwd", "ann"); !errors.Is(err, exec.ErrNotFound) {
		t.Error(err)
	}
}
