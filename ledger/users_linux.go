package ledger

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// A userDB tells users from numbers that anybody may have made: subordinate ids.
type userDB struct {
	names       map[int]string // by uid
	subordinate [][2]int       // first and count of ids that belong to some user
	hasRemote   bool           // there are users that we cannot read of, in a directory service
}

// readDatabase reads what a static binary can: passwd, subuid, nsswitch.conf in /etc.
func readDatabase(etc string) userDB {
	d := userDB{names: make(map[int]string)}
	for fields := range readRecords(etc, "passwd") {
		if uid, err := strconv.Atoi(fieldAt(fields, 2)); err == nil && d.names[uid] == "" {
			d.names[uid] = truncate(fields[0])
		}
	}
	for fields := range readRecords(etc, "subuid") {
		first, err1 := strconv.Atoi(fieldAt(fields, 1))
		count, err2 := strconv.Atoi(fieldAt(fields, 2))
		if err1 == nil && err2 == nil {
			d.subordinate = append(d.subordinate, [2]int{first, count})
		}
	}
	for fields := range readRecords(etc, "nsswitch.conf") {
		if fields[0] == "passwd" {
			d.hasRemote = directoryService(fieldAt(fields, 1))
		}
	}
	return d
}

// directoryService reports whether users come from elsewhere than files and the machine.
func directoryService(sources string) bool {
	for source := range strings.FieldsSeq(sources) {
		switch source {
		case "files", "compat", "systemd", "db", "altfiles":
		default:
			return !strings.HasPrefix(source, "#")
		}
	}
	return false
}

func readRecords(etc, file string) func(func([]string) bool) {
	text, _ := os.ReadFile(filepath.Join(etc, file))
	return func(yield func([]string) bool) {
		for line := range strings.Lines(string(text)) {
			if !yield(strings.Split(strings.TrimSpace(line), ":")) {
				return
			}
		}
	}
}

func fieldAt(fields []string, i int) string {
	if i < len(fields) {
		return fields[i]
	}
	return ""
}

// noUser stands for all uids that have no user of their own: together they have the
// limits of one, since whoever has subordinate ids has 65,536 of them (TRUST-14).
const noUser = -1

// userOf is the user that a uid counts as.
func (d userDB) userOf(uid int) int {
	if d.names[uid] != "" {
		return uid
	}
	for _, r := range d.subordinate {
		if uid >= r[0] && uid-r[0] < r[1] {
			return noUser
		}
	}
	if d.hasRemote {
		return uid
	}
	return noUser
}

// accountName is the name of a user in /etc/passwd; empty: he has none there. What entries of other users say about that is
// not believed: they could name anybody.
func (d *Dir) accountName(uid int) string { return d.users().names[uid] }

// userName is what to call a user.
func (d *Dir) userName(uid int) string { return nameOrUID(d.accountName(uid), uid) }

// userLimits counts what each user has brought. As long as all together stay below what one
// may have, nobody needs to know who is who.
type userLimits struct {
	d         *Dir
	usersRead bool
	all       userLoad
	each      map[int]userLoad // by uid, or by user once it was asked
}

type userLoad struct{ names, bytes int64 }

func (l userLoad) exceedsLimit() bool { return l.names > maxFiles || l.bytes > maxBytes }

func (l userLoad) plus(m userLoad) userLoad { return userLoad{l.names + m.names, l.bytes + m.bytes} }

func (d *Dir) newUserLimits() *userLimits { return &userLimits{d: d, each: make(map[int]userLoad)} }

// countUser counts what is a user's, and reports whether he is still within his limits.
func (l *userLimits) countUser(uid int, m userLoad) bool {
	if l.all = l.all.plus(m); l.all.exceedsLimit() {
		l.readUsers()
	}
	user := l.userOf(uid)
	l.each[user] = l.each[user].plus(m)
	return !l.each[user].exceedsLimit()
}

// userOf is the user that a uid counts as, as far as that was asked.
func (l *userLimits) userOf(uid int) int {
	if !l.usersRead || uid == os.Geteuid() {
		return uid
	}
	return l.d.users().userOf(uid)
}

// readUsers looks up who is who, and counts anew by user.
func (l *userLimits) readUsers() {
	if l.usersRead {
		return
	}
	byUID := l.each
	l.usersRead, l.each = true, make(map[int]userLoad)
	for uid, m := range byUID {
		l.each[l.userOf(uid)] = l.each[l.userOf(uid)].plus(m)
	}
}

// thousands writes a number as people do.
func thousands(n int) string {
	text := strconv.Itoa(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
