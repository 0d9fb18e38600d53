package node

import (
	"reflect"

	"remshell/job"
	"remshell/wire"
)

/*
A rule says when a message of one kind is allowed (rule TRUST-4). The connection has already checked the sender
and the size of the message, and the decoder has checked its values.

	mpiexec --- Send ---> rules[kind].sent ---------> helper   records what the helper may send because of it
	mpiexec <------------ rules[kind].admit --------- helper   returns the message, nil (late) or a violation

A reply to a request needs no rule: it is allowed while the request has no reply (wire.AnsweredBy). A
feature adds the rules of its messages with Admit and OnSend.
*/
type rule struct {
	admit func(*Validator, wire.Message) (wire.Message, error)
	sent  []func(*Validator, wire.Message)
}

// rules contains the rule of each kind of message, by the kind's number. It does not change after initialization.
var rules [256]rule

// Admit registers a function that decides whether a helper may currently send a message of type M. check returns the
// message, or nil to ignore it. If check returns an error, the message is a violation of the protocol, and the
// connection ends. check is called with the validator's lock held. Admit is called during program initialization.
func Admit[M wire.Message](check func(*Validator, M) (wire.Message, error)) {
	rules[wire.NumberFor[M]()].admit = func(v *Validator, m wire.Message) (wire.Message, error) { return check(v, m.(M)) }
}

// AdmitIf does the same as Admit, for a function that never ignores a message.
func AdmitIf[M wire.Message](check func(*Validator, M) error) {
	Admit(func(v *Validator, m M) (wire.Message, error) {
		if err := check(v, m); err != nil {
			return nil, err
		}
		return m, nil
	})
}

// OnSend registers a function that is called before a message of type M is sent to a helper. Functions are called in
// the order in which they were registered, with the validator's lock held. OnSend is called during program
// initialization.
func OnSend[M wire.Message](note func(*Validator, M)) {
	r := &rules[wire.NumberFor[M]()]
	r.sent = append(r.sent, func(v *Validator, m wire.Message) { note(v, m.(M)) })
}

// StateOf returns the value of type T that belongs to the connection. A feature keeps state for its rules there. The
// first call creates a zero T. The caller must hold the validator's lock.
func StateOf[T any](v *Validator) *T {
	key := reflect.TypeFor[T]()
	state, has := v.featureStates[key].(*T)
	if !has {
		state = new(T)
		if v.featureStates == nil {
			v.featureStates = make(map[reflect.Type]any)
		}
		v.featureStates[key] = state
	}
	return state
}

// TakeReply finds the request to which m is the reply. It returns m, or nil if mpiexec no longer waits for this
// reply. If mpiexec has sent no such request, it returns a violation. A rule calls TakeReply if it also checks the
// contents of the reply.
func (v *Validator) TakeReply(m wire.Message) (wire.Message, error) {
	return v.requestsSent.takeReply(m)
}

// SettingOf returns the setting of type S that was sent to the helper in Prepare. It contains the values of a feature's
// options. found is false if there is no such setting.
func SettingOf[S wire.Setting](v *Validator) (s S, found bool) { return wire.SettingOf[S](v.settings) }

// admit applies the rule for the message's kind. It returns the message, nil to ignore it, or a violation.
func (v *Validator) admit(m wire.Message) (wire.Message, error) {
	if check := rules[wire.NumberOf(m)].admit; check != nil {
		return check(v, m)
	}
	if _, isReply := wire.KeyOfReply(m); isReply {
		return v.requestsSent.takeReply(m)
	}
	return nil, Violationf("the host sent the message %s, which only mpiexec may send", wire.NameOf(m))
}

func init() {
	// The connection.
	Admit(func(v *Validator, m *wire.Ping) (wire.Message, error) { return m, nil })
	Admit(func(v *Validator, m *wire.Log) (wire.Message, error) { return v.LimitRate(&v.logs, maxLogRate, m), nil })
	OnSend(func(v *Validator, _ *wire.Bye) { v.progress.byeSent = v.now() })
	OnSend(func(v *Validator, _ *wire.NextAttempt) { v.progress.byeSent = v.now() })

	// The queue.
	Admit((*Validator).checkPosition)
	Admit(func(v *Validator, m *wire.ClaimsChanged) (wire.Message, error) {
		return v.queue.checkChanged(v.now(), m)
	})
	OnSend(func(v *Validator, _ *wire.Enqueue) { v.queue.waiting = true })
	OnSend(func(v *Validator, _ *wire.Dequeue) { v.queue.waiting, v.queue.dequeued = false, v.now() })
	OnSend(func(v *Validator, _ *wire.WatchClaims) { v.queue.watchesClaims = true })

	// A group of ranks, from its preparation to its end.
	OnSend((*Validator).noteGroupPlanned)
	OnSend(func(v *Validator, m *wire.CancelPrepare) { v.noteGroupCancelled(m.Group) })
	OnSend(func(v *Validator, m *wire.Start) { v.noteGroupStarted(m.Group) })
	OnSend((*Validator).noteGroupKilled)
	OnSend((*Validator).noteEndSent)
	Admit((*Validator).checkPrepared)
	Admit(func(v *Validator, m *wire.Refused) (wire.Message, error) {
		m.Code = job.StartFailureCode(m.Code)
		return v.checkGroupDropped(m, m.Group)
	})
	Admit(func(v *Validator, m *wire.ClaimConflict) (wire.Message, error) {
		return v.checkGroupDropped(m, m.Group)
	})
	Admit((*Validator).checkRankStarted)
	AdmitIf((*Validator).checkExited)
	AdmitIf(func(v *Validator, m *wire.HelperSignaled) error { return v.CountEnd(m, &v.progress.caught) })
	AdmitIf(func(v *Validator, m *wire.ProcessesGone) error { return v.CountEnd(m, &v.progress.emptied) })
	AdmitIf((*Validator).checkDrained)

	// Streams. The output of ranks is checked without the lock (checkOutput).
	Admit((*Validator).checkStdinClosed)
	Admit((*Validator).checkCredit)
	OnSend(func(v *Validator, m *wire.Data) { v.noteStdinSent(m.Rank, m.Len()) })
	OnSend(func(v *Validator, m *wire.StdinBroadcast) {
		for _, rank := range m.Ranks {
			v.noteStdinSent(rank, len(m.Bytes))
		}
	})

	// PMI and PMIx.
	Admit(func(v *Validator, m *wire.PMIReport) (wire.Message, error) { return v.UnlessDrained(m, v.checkPMI(m)) })
	Admit((*Validator).checkFence)
	Admit(func(v *Validator, m *wire.RankMapRequest) (wire.Message, error) { return v.CheckRankRequest(m, m.ID) })
	OnSend(func(v *Validator, _ *wire.RankMap) { v.CountRankReply() })

	// Requests of users to the job.
	Admit((*Validator).checkControl)
	OnSend(func(v *Validator, _ *wire.ControlReply) { v.progress.controlOpen = false })
}
