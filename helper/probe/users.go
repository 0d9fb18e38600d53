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

// These are limits for lookups in a directory service. Another user may use all subordinate IDs as uids, so there may
// be very many uids to look up. The service may also hang.
const (
	maxUsers          = 64
	userLookupTimeout = time.Second
)

// UserIDs returns functions that look up users and groups of this node. A new set of functions is used for
// each configuration file that is read.
func UserIDs() config.IDs {
	user, group := nsswitch.IDFinders(userLookupTimeout)
	return config.IDs{User: user, Group: group}
}

// UserNames returns the names of users, for uids that are not in /etc/passwd. It runs getent, which asks the directory
// services in nsswitch.conf. It leaves out users without a name, and all uids after the first maxUsers.
func UserNames(ctx context.Context, uids []int) map[int]string {
	names := make(map[int]string)
	if len(uids) == 0 {
		return names
	}
	var keys []string
	requested := make(map[int]bool)
	for _, uid := range uids[:min(len(uids), maxUsers)] {
		keys, requested[uid] = append(keys, strconv.Itoa(uid)), true
	}
	answer, _ := nsswitch.Getent(ctx, userLookupTimeout, "passwd", keys...)
	for line := range strings.Lines(answer) {
		fields := strings.Split(line, ":")
		if len(fields) < 3 {
			continue
		}
		if uid, err := strconv.Atoi(fields[2]); err == nil && requested[uid] {
			names[uid] = fields[0]
		}
	}
	return names
}
