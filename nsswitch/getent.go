package nsswitch

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"os/user"
	"strconv"
	"strings"
	"time"

	"remshell/subprocess"
)

// maxAnswer is how long an answer of getent may be, in bytes.
const maxAnswer = 1 << 20

/*
Getent asks the C library, which knows all of nsswitch.conf, for entries of a database. Keys without an entry are not in the
answer. getent and what it starts are killed when ctx ends or limit is over, or when the answer is too long; what was answered
until then is returned with the error. On a machine without getent, as macOS, the error is exec.ErrNotFound.
*/
func Getent(ctx context.Context, limit time.Duration, database string, keys ...string) (answer string, err error) {
	program, err := exec.LookPath("getent")
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("no answer of getent in %v", limit))
	defer cancel()
	cmd := exec.CommandContext(ctx, program, append([]string{database}, keys...)...)
	var out limitedOutput
	cmd.Stdout = &out
	err = subprocess.Run(cmd, subprocess.SessionAttr())
	switch {
	case out.cut:
		err = errAnswerTooLong
	case ctx.Err() != nil:
		err = context.Cause(ctx)
	case cmd.Process != nil: // it ran; the exit code says only whether all keys were found
		err = nil
	}
	return out.String(), err
}

// A limitedOutput keeps what a command prints, up to answerMost bytes.
type limitedOutput struct {
	strings.Builder
	cut bool // there was more
}

var errAnswerTooLong = fmt.Errorf("getent answers with more than %d KiB", maxAnswer>>10)

func (c *limitedOutput) Write(p []byte) (int, error) {
	kept := p[:min(len(p), maxAnswer-c.Len())]
	c.Builder.Write(kept)
	if c.cut = len(kept) < len(p); c.cut {
		return len(kept), errAnswerTooLong // which ends the command by SIGPIPE
	}
	return len(p), nil
}

// nameTimeout is how long the name of a user may be looked up for a message.
const nameTimeout = 3 * time.Second

// UserText is how messages name a user: "user alice", or "uid 1007" if this machine has no name for him.
func UserText(uid int) string {
	if a := LookupAccount(context.Background(), nameTimeout, uid); a.Name != "" {
		return "user " + a.Name
	}
	return "uid " + strconv.Itoa(uid)
}

// LookupAccount finds the account of a user: in /etc/passwd, or else as nsswitch.conf says. It is empty if there is none, or no answer in
// time.
func LookupAccount(ctx context.Context, limit time.Duration, uid int) Account {
	if u, err := user.LookupId(strconv.Itoa(uid)); err == nil {
		return Account{u.Username, u.HomeDir}
	}
	answer, _ := Getent(ctx, limit, "passwd", strconv.Itoa(uid))
	return ParseAccount(answer, uid)
}

// IDFinders return functions that find the number of a user and of a group by the name: in /etc/passwd and /etc/group, or else
// as nsswitch.conf says. Look-ups by it may take limit, all together. The functions are for one goroutine.
func IDFinders(limit time.Duration) (userID, groupID func(name string) (int, error)) {
	left := limit
	ask := func(kind, database, name string) (int, error) {
		if strings.HasPrefix(name, "-") { // to getent it would be an option
			return 0, fmt.Errorf("no %s %q is known here", kind, name)
		}
		began := time.Now()
		answer, err := Getent(context.Background(), left, database, name)
		left -= time.Since(began)
		if fields := strings.Split(answer, ":"); len(fields) > 2 {
			if id, err := strconv.ParseUint(fields[2], 10, 32); err == nil {
				return int(id), nil
			}
		}
		if err != nil && !errors.Is(err, exec.ErrNotFound) {
			return 0, fmt.Errorf("the %s %q cannot be looked up here (%w)", kind, name, err)
		}
		return 0, fmt.Errorf("no %s %q is known here", kind, name)
	}
	userID = func(name string) (int, error) {
		if u, err := user.Lookup(name); err == nil {
			return strconv.Atoi(u.Uid)
		}
		return ask("user", "passwd", name)
	}
	groupID = func(name string) (int, error) {
		if g, err := user.LookupGroup(name); err == nil {
			return strconv.Atoi(g.Gid)
		}
		return ask("group", "group", name)
	}
	return userID, groupID
}
