//go:build linux

package probe

import (
	"context"
	"strconv"
	"strings"
	"time"

	"remshell/config"
	"remshell/nsswitch"
)

// Limits of what is asked of a directory service: another user may make as many uids appear as he has subordinate ones, and the
// service may hang.
const (
	maxUsers          = 64
	userLookupTimeout = time.Second
)

// userIDs knows the users and groups of this node, for one reading of a file.
func userIDs() config.IDs {
	user, group := nsswitch.IDFinders(userLookupTimeout)
	return config.IDs{User: user, Group: group}
}

// UserNames returns the names of users that are not in /etc/passwd. It asks getent, which knows the directory services of
// nsswitch.conf. Who has no name there is not in the result.
func UserNames(ctx context.Context, uids []int) map[int]string {
	names := make(map[int]string)
	if len(uids) == 0 {
		return names
	}
	var keys []string
	asked := make(map[int]bool)
	for _, uid := range uids[:min(len(uids), maxUsers)] {
		keys, asked[uid] = append(keys, strconv.Itoa(uid)), true
	}
	answer, _ := nsswitch.Getent(ctx, userLookupTimeout, "passwd", keys...)
	for line := range strings.Lines(answer) {
		fields := strings.Split(line, ":")
		if len(fields) < 3 {
			continue
		}
		if uid, err := strconv.Atoi(fields[2]); err == nil && asked[uid] {
			names[uid] = fields[0]
		}
	}
	return names
}
