//go:build linux

package claims

import (
	"fmt"

	"remshell/helper/probe"
	"remshell/job"
	"remshell/wire"
)

// This file names the users whose entries are in the ledger. What another user's entry says about that is not believed: the ledger
// takes the name from /etc/passwd, by the owner of the file. Users of a directory service have no name there.

// A unnamedUser is a user whose name the ledger did not find.
type unnamedUser struct {
	uid  int
	name *string
}

// nameListed names the users of all that is listed.
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

// nameSurveyed names the user who has most of a node.
func (w *Worker) nameSurveyed(u *job.Occupancy) {
	if u.TopUser == fmt.Sprint("uid ", u.TopUID) {
		w.nameUsers([]unnamedUser{{u.TopUID, &u.TopUser}})
	}
}

// nameUsers gives users their names, as far as there are any. Each user is looked up once.
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
