package job

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A Verb is an operation that users can request of a running job (survive.md SV-24).
type Verb string

// These are the operations that users can request of a running job.
const (
	VerbStatus Verb = "status" // report what each rank is doing
	VerbStacks Verb = "stacks" // report the stacks of ranks; Args may name them: ranks=0-3
	VerbEnd    Verb = "end"

	VerbSuspend    Verb = "suspend" // stop all ranks
	VerbResume     Verb = "resume"
	VerbCheckpoint Verb = "checkpoint"
	VerbMigrate    Verb = "migrate" // move to other nodes; Args name the old and the new ones

	VerbEvict Verb = "evict" // end the processes that hold the job's ledger entries (trust.md TRUST-19)
)

// Verbs lists all operations that users can request of a running job.
var Verbs = []Verb{VerbStatus, VerbStacks, VerbEnd, VerbSuspend, VerbResume, VerbCheckpoint, VerbMigrate, VerbEvict}

// NewestJob stands for the requesting user's most recently started job.
const NewestJob ID = "last"

// A JobRef is a job as named on the command line: JOB, or JOB@USER if several users have a job with the ID JOB.
type JobRef struct {
	Job  ID
	User string // user name or ID; empty: not given
}

// ParseRef parses JOB or JOB@USER.
func ParseRef(text string) (JobRef, error) {
	id, user, named := strings.Cut(text, "@")
	if id == "" || named && user == "" {
		return JobRef{}, fmt.Errorf("%q is neither JOB nor JOB@USER", text)
	}
	return JobRef{ID(id), user}, nil
}

func (r JobRef) String() string {
	if r.User == "" {
		return string(r.Job)
	}
	return string(r.Job) + "@" + r.User
}

// MatchesUser reports whether r names this user. If r names no user, it matches every user.
func (r JobRef) MatchesUser(user string, uid int) bool {
	return r.User == "" || r.User == user || r.User == strconv.Itoa(uid)
}

// AnyOwner is the value of Owner in a ControlRequest from an older version of the program, which does not
// send an owner.
const AnyOwner = -1

// A ControlRequest is a request to a running job. It is a file in the ledger (directory of claims) of one of
// the job's nodes. The requester writes all fields except UID. Only UID, the owner of the file, can be
// trusted.
type ControlRequest struct {
	Job   ID        `json:"job"`
	Owner int       `json:"owner"` // uid of the job's owner: another user may claim the same ID
	UID   int       `json:"uid"`   // owner of the file
	User  string    `json:"user"`
	Verb  Verb      `json:"verb"`
	Args  []string  `json:"args,omitempty"`
	Since time.Time `json:"since"`
}

// A ReplyState says how far a job has carried out a ControlRequest.
type ReplyState string

// These are the states of a reply. ReplyDone and ReplyRefused are final.
const (
	ReplyAccepted ReplyState = "taken" // the job is working on it
	ReplyDone     ReplyState = "done"
	ReplyRefused  ReplyState = "refused"
)

// IsFinal reports whether a reply with this state is the last reply to its request.
func (s ReplyState) IsFinal() bool { return s == ReplyDone || s == ReplyRefused }

// IsKnown reports whether s is ReplyAccepted, ReplyDone or ReplyRefused.
func (s ReplyState) IsKnown() bool { return s == ReplyAccepted || s.IsFinal() }

// A ControlReply is a job's reply to a ControlRequest. It is a file in the same ledger (directory of claims)
// as the request.
type ControlReply struct {
	Job   ID              `json:"job"`
	UID   int             `json:"uid"` // owner of the file and of the job
	State ReplyState      `json:"state"`
	Text  string          `json:"text"`
	Ranks []NodeRankState `json:"data,omitempty"` // for VerbStatus only

	Stacks *StackReport `json:"stacks,omitempty"` // for VerbStacks only. Only the requester's helper and root can read such a file
}

// A NodeRankState is the state of a rank, with the name of the rank's node.
type NodeRankState struct {
	Node string
	RankState
}

// MaxRankStates is the maximum number of ranks whose states one reply contains.
const MaxRankStates = 4096

// Truncated returns s with each string cut to 256 bytes. It is applied to states from other users.
func (s NodeRankState) Truncated() NodeRankState {
	return NodeRankState{truncate(s.Node), s.RankState.Truncated()}
}

// Certain replies begin with these texts. The mpiexec that has sent the request recognizes them and prints advice.
const (
	LauncherStoppedText = "the mpiexec of the job is stopped"
	SuspendedText       = "the job is suspended" // and cannot carry out the request
	CannotSaveText      = SuspendedText + ", so its ranks cannot write a checkpoint"
	NotAllowedText      = "you may not do this"
	NoAnswerText        = "the job did not reply"
	StartingText        = "not all ranks of the job are running yet"
)

// StartedWithoutText is part of each reply that refuses a request because the job was started without certain options.
// The names of the options follow this text.
const StartedWithoutText = "it was started without"

// A Hold is a reason to keep a job's ranks stopped. The ranks run only while there is no Hold (survive.md SV-28).
type Hold string

// These are the reasons to keep ranks stopped.
const (
	HoldRequested       Hold = "suspend" // a user requested it (VerbSuspend)
	HoldLauncherStopped Hold = "stopped" // mpiexec itself is stopped, by ^Z or by a batch system
	HoldGang            Hold = "gang"    // other gangs have their turn; helpers add and remove it themselves (--gang)
)

// IsKnown reports whether h is HoldRequested, HoldLauncherStopped or HoldGang.
func (h Hold) IsKnown() bool { return h == HoldRequested || h == HoldLauncherStopped || h == HoldGang }

// A Role says why a user may control a job.
type Role string

// These are the roles, in the order in which Authorize tries them.
const (
	RoleOwner         Role = "owner"
	RoleRoot          Role = "root"
	RoleAdministrator Role = "administrator"
)

// Authorize returns the role in which requester may control a job of owner. Both are user IDs. It returns false if
// requester may not control the job (survive.md SV-25). administrators lists the users who may control all jobs on
// the node. They come from a file that only root can write.
func Authorize(requester, owner int, administrators []int) (Role, bool) {
	switch {
	case requester == owner:
		return RoleOwner, true
	case requester == 0:
		return RoleRoot, true
	case slices.Contains(administrators, requester):
		return RoleAdministrator, true
	}
	return "", false
}

// A ControlEvent is the event by which --json reports that a job has replied to a ControlRequest.
type ControlEvent struct {
	Node  string // the node through which the request came and which verified the user
	Verb  Verb
	User  string
	State ReplyState
}
