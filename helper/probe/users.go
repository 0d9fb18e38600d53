//go:build linux

package probe

import (
	"bufio"
	"context"
	"io"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// Limits of UserNames: another user may make as many uids appear as he has subordinate ones, and a directory service may hang.
const (
	maxUsers  = 64
	usersTime = time.Second
)

// UserNames returns the names of users that are not in /etc/passwd. It asks getent, which knows the directory services of
// nsswitch.conf. Who has no name there is not in the result.
func UserNames(ctx context.Context, uids []int) map[int]string {
	names := make(map[int]string)
	if len(uids) == 0 {
		return names
	}
	ctx, done := context.WithTimeout(ctx, usersTime)
	defer done()
	words, asked := []string{"passwd"}, make(map[int]bool)
	for _, uid := range uids[:min(len(uids), maxUsers)] {
		words, asked[uid] = append(words, strconv.Itoa(uid)), true
	}
	cmd := exec.CommandContext(ctx, "getent", words...)
	out, err := cmd.StdoutPipe()
	if err != nil || cmd.Start() != nil {
		return names
	}
	defer cmd.Wait() // its exit code says only that some have no name
	for lines := bufio.NewScanner(io.LimitReader(out, 1<<20)); lines.Scan(); {
		fields := strings.Split(lines.Text(), ":")
		if len(fields) < 3 {
			continue
		}
		if uid, err := strconv.Atoi(fields[2]); err == nil && asked[uid] {
			names[uid] = fields[0]
		}
	}
	return names
}
