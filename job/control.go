package job

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A Verb is what somebody wants of a running job (survive.md SV-24).
type Verb string

// The verbs.
const (
	VerbStatus Verb = "status" // what each rank is doing
	VerbEnd    Verb = "end"

	VerbSuspend    Verb = "suspend" // all ranks stand still
	VerbResume     Verb = "resume"
	VerbCheckpoint Verb = "checkpoint"
	VerbMigrate    Verb = "migrate" // elsewhere; Args say where from and to

	VerbEvict Verb = "evict" // says who ends the processes that hold the job's entries (trust.md TRUST-19)
)

// Verbs are all verbs.
var Verbs = []Verb{VerbStatus, VerbEnd, VerbSuspend, VerbResume, VerbCheckpoint, VerbMigrate, VerbEvict}

// NewestJob stands for the youngest job of who asks.
const NewestJob ID = "last"

// A JobRef is how people name a job: by its ID, or as ID@USER if several users claim that ID.
type JobRef struct {
	Job  ID
	User string // name or number; empty: not said
}

// ParseRef reads JOB or JOB@USER.
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

// MatchesUser reports whether the user is the one that is named. If none is named, everybody is.
func (r JobRef) MatchesUser(user string, uid int) bool {
	return r.User == "" || r.User == user || r.User == strconv.Itoa(uid)
}

// AnyOwner is the Owner of an Ask that was written by a version that does not name one.
const AnyOwner = -1

// A ControlRequest is a word with a running job, as it stands in the ledger of one of its nodes. All of it
// but UID is what the asker says.
type ControlRequest struct {
	Job   ID        `json:"job"`
	Owner int       `json:"owner"` // the user whose job is meant: others may claim the same ID
	UID   int       `json:"uid"`   // the owner of the file
	User  string    `json:"user"`
	Verb  Verb      `json:"verb"`
	Args  []string  `json:"args,omitempty"`
	Since time.Time `json:"since"`
}

// A ReplyState is how far an ask has come.
type ReplyState string

// The states. Nothing follows the last two.
const (
	ReplyAccepted ReplyState = "taken" // it is being done
	ReplyDone     ReplyState = "done"
	ReplyRefused  ReplyState = "refused"
)

// IsFinal reports whether nothing follows.
func (s ReplyState) IsFinal() bool { return s == ReplyDone || s == ReplyRefused }

// IsKnown reports whether it is one of them.
func (s ReplyState) IsKnown() bool { return s == ReplyAccepted || s.IsFinal() }

// A ControlReply is what a job says to an ask, as it stands beside it.
type ControlReply struct {
	Job   ID              `json:"job"`
	UID   int             `json:"uid"` // the owner of the file, and of the job
	State ReplyState      `json:"state"`
	Text  string          `json:"text"`
	Ranks []NodeRankState `json:"data,omitempty"` // of AskStatus
}

// A NodeRankState is what a rank is doing, and where.
type NodeRankState struct {
	Node string
	RankState
}

// MaxRankStates is of how many ranks an answer tells.
const MaxRankStates = 4096

// Truncated returns the state as RankState.Bounded does.
func (s NodeRankState) Truncated() NodeRankState {
	return NodeRankState{truncate(s.Node), s.RankState.Truncated()}
}

// How answers begin by which the one who asked is told what to do.
const (
	LauncherStoppedText = "its mpiexec is stopped"
	SuspendedText       = "suspended: " // and cannot do what it was asked for
	NotAllowedText      = "not allowed: "
	NoAnswerText        = "no answer from job "
	StartingText        = "its ranks do not all run yet"
)

// A Hold is a reason why the ranks of a job stand still. They run when there is none (survive.md SV-28).
type Hold string

// The reasons.
const (
	HoldRequested       Hold = "suspend" // somebody has asked for it
	HoldLauncherStopped Hold = "stopped" // mpiexec itself is: by ^Z, or by a batch system
)

// IsKnown reports whether it is one of them.
func (h Hold) IsKnown() bool { return h == HoldRequested || h == HoldLauncherStopped }

// A Role is why a job obeys somebody.
type Role string

// The rights, the first that fits counts.
const (
	RoleOwner         Role = "owner"
	RoleRoot          Role = "root"
	RoleAdministrator Role = "administrator"
)

// Authorize judges whether the helper of an owner's job obeys somebody (survive.md SV-25): the owner
// himself, root, and those whom the node's own file of root's names administrators.
func Authorize(asker, owner int, administrators []int) (Role, bool) {
	switch {
	case asker == owner:
		return RoleOwner, true
	case asker == 0:
		return RoleRoot, true
	case slices.Contains(administrators, asker):
		return RoleAdministrator, true
	}
	return "", false
}

// A ControlEvent ask is one that a job has answered, as --json has it.
type ControlEvent struct {
	Node  string // by which somebody has asked, and which says who that is
	Verb  Verb
	User  string
	State ReplyState
}
