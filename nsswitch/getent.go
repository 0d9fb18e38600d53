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

// maxAnswer is the maximum size of getent's output in bytes.
const maxAnswer = 1 << 20

/*
Getent looks up entries of a database with getent(1), which uses the C library with all sources of nsswitch.conf. The
answer contains no line for a key without an entry.

Getent kills getent and its child processes when ctx is done, when limit passes, or when the answer is too long. It
then returns the incomplete answer with an error. On a machine without getent, such as macOS, the error is
exec.ErrNotFound.
*/
func Getent(ctx context.Context, limit time.Duration, database string, keys ...string) (answer string, err error) {
	program, err := exec.LookPath("getent")
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("getent did not answer within %v", limit))
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
	case cmd.Process != nil: // it ran; its exit status only says whether all keys were found
		err = nil
	}
	return out.String(), err
}

// A limitedOutput is a writer that keeps the first maxAnswer bytes of a command's output.
type limitedOutput struct {
	strings.Builder
	cut bool // there was more output
}

var errAnswerTooLong = fmt.Errorf("the answer of getent is larger than %d KiB", maxAnswer>>10)

func (c *limitedOutput) Write(p []byte) (int, error) {
	kept := p[:min(len(p), maxAnswer-c.Len())]
	c.Builder.Write(kept)
	if c.cut = len(kept) < len(p); c.cut {
		return len(kept), errAnswerTooLong // the error ends the command by SIGPIPE
	}
	return len(p), nil
}

// nameTimeout is how long mpiexec may take to look up a user's name for a message.
const nameTimeout = 3 * time.Second

// UserText returns a string that names a user in messages. It is "user alice", or "uid 1007" if this machine has no
// name for the user ID.
func UserText(uid int) string {
	if a := LookupAccount(context.Background(), nameTimeout, uid); a.Name != "" {
		return "user " + a.Name
	}
	return "uid " + strconv.Itoa(uid)
}

// LookupAccount returns the account of a user from /etc/passwd, or otherwise from getent. It returns a zero Account
// if there is no such user, or if getent does not reply within limit.
func LookupAccount(ctx context.Context, limit time.Duration, uid int) Account {
	if u, err := user.LookupId(strconv.Itoa(uid)); err == nil {
		return Account{u.Username, u.HomeDir}
	}
	answer, _ := Getent(ctx, limit, "passwd", strconv.Itoa(uid))
	return ParseAccount(answer, uid)
}

// IDFinders returns two functions. userID returns the ID of the user with the given name, and groupID returns the ID of
// the group with the given name. They look in /etc/passwd and /etc/group first, and then call getent. limit is the
// maximum time for all calls of getent together. Only one goroutine may use the functions.
func IDFinders(limit time.Duration) (userID, groupID func(name string) (int, error)) {
	left := limit
	lookUp := func(kind, database, name string) (int, error) {
		if strings.HasPrefix(name, "-") { // getent would take it for an option
			return 0, fmt.Errorf("no %s %q exists here", kind, name)
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
		return 0, fmt.Errorf("no %s %q exists here", kind, name)
	}
	userID = func(name string) (int, error) {
		if u, err := user.Lookup(name); err == nil {
			return strconv.Atoi(u.Uid)
		}
		return lookUp("user", "passwd", name)
	}
	groupID = func(name string) (int, error) {
		if g, err := user.LookupGroup(name); err == nil {
			return strconv.Atoi(g.Gid)
		}
		return lookUp("group", "group", name)
	}
	return userID, groupID
}
