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
	AskStatus Verb = "status" // what each rank is doing
	AskEnd    Verb = "end"

	AskSuspend    Verb = "suspend" // all ranks stand still
	AskResume     Verb = "resume"
	AskCheckpoint Verb = "checkpoint"
	AskMigrate    Verb = "migrate" // elsewhere; Args say where from and to

	AskEvict Verb = "evict" // says who ends the processes that hold the job's entries (trust.md TRUST-19)
)

// Verbs are all verbs.
var Verbs = []Verb{AskStatus, AskEnd, AskSuspend, AskResume, AskCheckpoint, AskMigrate, AskEvict}

// LastJob stands for the youngest job of who asks.
const LastJob ID = "last"

// A Ref is how people name a job: by its ID, or as ID@USER if several users claim that ID.
type Ref struct {
	Job  ID
	User string // name or number; empty: not said
}

// ParseRef reads JOB or JOB@USER.
func ParseRef(text string) (Ref, error) {
	id, user, named := strings.Cut(text, "@")
	if id == "" || named && user == "" {
		return Ref{}, fmt.Errorf("%q is neither JOB nor JOB@USER", text)
	}
	return Ref{ID(id), user}, nil
}

func (r Ref) String() string {
	if r.User == "" {
		return string(r.Job)
	}
	return string(r.Job) + "@" + r.User
}

// Of reports whether the user is the one that is named. If none is named, everybody is.
func (r Ref) Of(user string, uid int) bool {
	return r.User == "" || r.User == user || r.User == strconv.Itoa(uid)
}

// AnyOwner is the Owner of an Ask that was written by a version that does not name one.
const AnyOwner = -1

// An Ask is a word with a running job, as it stands in the ledger of one of its nodes. All of it
// but UID is what the asker says.
type Ask struct {
	Job   ID        `json:"job"`
	Owner int       `json:"owner"` // the user whose job is meant: others may claim the same ID
	UID   int       `json:"uid"`   // the owner of the file
	User  string    `json:"user"`
	Verb  Verb      `json:"verb"`
	Args  []string  `json:"args,omitempty"`
	Since time.Time `json:"since"`
}

// An AnswerState is how far an ask has come.
type AnswerState string

// The states. Nothing follows the last two.
const (
	AskTaken   AnswerState = "taken" // it is being done
	AskDone    AnswerState = "done"
	AskRefused AnswerState = "refused"
)

// Final reports whether nothing follows.
func (s AnswerState) Final() bool { return s == AskDone || s == AskRefused }

// Known reports whether it is one of them.
func (s AnswerState) Known() bool { return s == AskTaken || s.Final() }

// An Answer is what a job says to an ask, as it stands beside it.
type Answer struct {
	Job   ID            `json:"job"`
	UID   int           `json:"uid"` // the owner of the file, and of the job
	State AnswerState   `json:"state"`
	Text  string        `json:"text"`
	Ranks []PlacedState `json:"data,omitempty"` // of AskStatus
}

// A PlacedState is what a rank is doing, and where.
type PlacedState struct {
	Node string
	RankState
}

// MaxStates is of how many ranks an answer tells.
const MaxStates = 4096

// Bounded returns the state as RankState.Bounded does.
func (s PlacedState) Bounded() PlacedState {
	return PlacedState{bounded(s.Node), s.RankState.Bounded()}
}

// How answers begin by which the one who asked is told what to do.
const (
	StoppedText    = "its mpiexec is stopped"
	SuspendedText  = "suspended: " // and cannot do what it was asked for
	NotAllowedText = "not allowed: "
	NoAnswerText   = "no answer from job "
	StartingText   = "its ranks do not all run yet"
)

// A Hold is a reason why the ranks of a job stand still. They run when there is none (survive.md SV-28).
type Hold string

// The reasons.
const (
	HoldAsked   Hold = "suspend" // somebody has asked for it
	HoldStopped Hold = "stopped" // mpiexec itself is: by ^Z, or by a batch system
)

// Known reports whether it is one of them.
func (h Hold) Known() bool { return h == HoldAsked || h == HoldStopped }

// A Right is why a job obeys somebody.
type Right string

// The rights, the first that fits counts.
const (
	Owner         Right = "owner"
	Root          Right = "root"
	Administrator Right = "administrator"
)

// Obeyed judges whether the helper of an owner's job obeys somebody (survive.md SV-25): the owner
// himself, root, and those whom the node's own file of root's names administrators.
func Obeyed(asker, owner int, administrators []int) (Right, bool) {
	switch {
	case asker == owner:
		return Owner, true
	case asker == 0:
		return Root, true
	case slices.Contains(administrators, asker):
		return Administrator, true
	}
	return "", false
}

// A Heard ask is one that a job has answered, as --json has it.
type Heard struct {
	Node  string // by which somebody has asked, and which says who that is
	Verb  Verb
	User  string
	State AnswerState
}
