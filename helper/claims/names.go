//go:build linux

package claims

import (
	"fmt"

	"remshell/helper/probe"
	"remshell/job"
	"remshell/wire"
)

// This file finds the names of the users in the ledger. An entry of another user is not believed about its user's name: package ledger
// takes the name of the file's owner from /etc/passwd, which does not have users of a directory service.

// An unnamedUser is a user whose name is not in /etc/passwd. name points to the variable in which the name is
// to be stored.
type unnamedUser struct {
	uid  int
	name *string
}

// nameListed fills in user names that are missing in a list of claims and tickets.
func (w *Worker) nameListed(m *wire.LedgerListed) {
	var all []unnamedUser
	for i, c := range m.Claims {
		if c.User == "" {
			all = append(all, unnamedUser{c.UID, &m.Claims[i].User})
		}
	}
	for i, t := range m.Tickets {
		if t.User == "" {
			all = append(all, unnamedUser{t.UID, &m.Tickets[i].User})
		}
	}
	w.nameUsers(all)
}

// nameSurveyed looks up the name of the user who has claimed the most CPUs of the node, if u contains only the user
// ID.
func (w *Worker) nameSurveyed(u *job.Occupancy) {
	if u.TopUser == fmt.Sprint("uid ", u.TopUID) {
		w.nameUsers([]unnamedUser{{u.TopUID, &u.TopUser}})
	}
}

// nameUsers looks up the names of users and stores them. Names that are not found remain empty. Each user is
// looked up only once in a session.
func (w *Worker) nameUsers(all []unnamedUser) {
	var unknown []int
	for _, one := range all {
		if _, known := w.userNames[one.uid]; !known {
			w.userNames[one.uid] = ""
			unknown = append(unknown, one.uid)
		}
	}
	for uid, name := range probe.UserNames(w.ctx, unknown) {
		w.userNames[uid] = name
	}
	for _, one := range all {
		if name := w.userNames[one.uid]; name != "" {
			*one.name = name
		}
	}
}
