package ledger

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// A userDB distinguishes users with an account from subordinate user IDs, of which every user may have many
// (subuid(5)).
type userDB struct {
	names       map[int]string // by uid
	subordinate [][2]int       // first and count of ranges in subuid(5)
	hasRemote   bool           // there are users in a directory service, which we cannot read
}

// readDatabase reads the user database: the files passwd, subuid and nsswitch.conf in etc. A static binary cannot use
// sources such as LDAP.
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
			d.hasRemote = usesDirectoryService(fieldAt(fields, 1))
		}
	}
	return d
}

// usesDirectoryService reports whether sources, a line of nsswitch.conf(5), names a source other than local files and
// systemd.
func usesDirectoryService(sources string) bool {
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

// noUser stands for all uids without a user account. Together they have the limits of a single user, because
// a user can have 65,536 subordinate IDs (rule TRUST-14).
const noUser = -1

// userOf returns the user whose limits apply to a uid. It returns the uid itself, or noUser if the uid certainly has no
// account.
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

// accountName returns the name of a user in /etc/passwd, or "" if that file does not contain the user. Names in the
// ledger entries of other users are not used, because they could be false.
func (d *Dir) accountName(uid int) string { return d.users().names[uid] }

// userName returns the name of a user, or "uid N" if the user has no name.
func (d *Dir) userName(uid int) string { return nameOrUID(d.accountName(uid), uid) }

// userLimits counts the files of each user and compares them with the limits. It reads the user database only
// if all files together exceed the limits of one user.
type userLimits struct {
	d         *Dir
	usersRead bool
	all       userLoad
	each      map[int]userLoad // by uid, or after readUsers by user
}

type userLoad struct{ names, bytes int64 }

func (l userLoad) exceedsLimit() bool { return l.names > maxFiles || l.bytes > maxBytes }

func (l userLoad) plus(m userLoad) userLoad { return userLoad{l.names + m.names, l.bytes + m.bytes} }

func (d *Dir) newUserLimits() *userLimits { return &userLimits{d: d, each: make(map[int]userLoad)} }

// countUser adds m, a number of file names or bytes, to the total of a user. It reports whether the user is within the
// limits.
func (l *userLimits) countUser(uid int, m userLoad) bool {
	if l.all = l.all.plus(m); l.all.exceedsLimit() {
		l.readUsers()
	}
	user := l.userOf(uid)
	l.each[user] = l.each[user].plus(m)
	return !l.each[user].exceedsLimit()
}

// userOf returns the user whose limits apply to a uid. Until readUsers is called, it returns the uid itself.
func (l *userLimits) userOf(uid int) int {
	if !l.usersRead || uid == os.Geteuid() {
		return uid
	}
	return l.d.users().userOf(uid)
}

// readUsers makes the limits apply to user accounts instead of uids.
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

// thousands formats a number with commas between groups of three digits.
func thousands(n int) string {
	text := strconv.Itoa(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
