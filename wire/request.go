package wire

import (
	"reflect"
	"sync"
)

// A Request is a message to which the other process sends one reply. Rep is the type of the reply. It is a
// message type, or an interface if there are several possible replies. A message becomes a Request by
// embedding AnsweredBy.
type Request[Rep any] interface {
	Message
	answeredBy(Rep)
}

// AnsweredBy is embedded in a request to declare the type of its reply. The compiler uses this type to check
// callers, and mpiexec uses it to check the replies of helpers (KeyOfRequest). Some requests of features do not
// embed AnsweredBy. For these requests, both sides keep tables of open requests by ID.
type AnsweredBy[Rep any] struct{}

func (AnsweredBy[Rep]) answeredBy(Rep) {}

func (AnsweredBy[Rep]) replyType() reflect.Type { return reflect.TypeFor[Rep]() }

// A PrepareReply is a reply to Prepare: Prepared, Refused or ClaimConflict.
type PrepareReply interface {
	Message
	prepareReply()
}

func (*Prepared) prepareReply()      {}
func (*Refused) prepareReply()       {}
func (*ClaimConflict) prepareReply() {}

// A ReplyKey is a key that a request and its reply have in common. A reply is accepted only if a request with
// the same key waits for one.
type ReplyKey struct {
	reply reflect.Type
	ID    string // what ReplyID returns; empty if the messages have no ReplyID
}

// messageWithID is implemented by requests and replies that have an ID. The ID distinguishes replies to several
// requests of the same kind.
type messageWithID interface{ ReplyID() string }

func (m *Prepare) ReplyID() string        { return m.Group.Name }
func (m *Prepared) ReplyID() string       { return m.Group }
func (m *Refused) ReplyID() string        { return m.Group }
func (m *ClaimConflict) ReplyID() string  { return m.Group }
func (m *ControlRequest) ReplyID() string { return m.ID }
func (m *ControlReply) ReplyID() string   { return m.ID }

func newReplyKey(reply reflect.Type, m Message) ReplyKey {
	key := ReplyKey{reply: reply}
	if m, ok := m.(messageWithID); ok {
		key.ID = m.ReplyID()
	}
	return key
}

// KeyOfRequest returns the key of a request. isRequest is false if m is not a request.
func KeyOfRequest(m Message) (key ReplyKey, isRequest bool) {
	request, ok := m.(interface{ replyType() reflect.Type })
	if !ok {
		return ReplyKey{}, false
	}
	return newReplyKey(request.replyType(), m), true
}

// KeyOfReply returns the key of a reply that mpiexec receives. isReply is false if m is not such a reply.
func KeyOfReply(m Message) (key ReplyKey, isReply bool) {
	reply, ok := replyTypes()[reflect.TypeOf(m)]
	if !ok {
		return ReplyKey{}, false
	}
	return newReplyKey(reply, m), true
}

// IsReplyTo reports whether m is a reply to request.
func IsReplyTo(request, m Message) bool {
	want, isRequest := KeyOfRequest(request)
	key, isReply := KeyOfReply(m)
	return isRequest && isReply && key == want
}

// replyTypes maps the type of each reply that mpiexec receives to the type that the request names in
// AnsweredBy, which may be an interface.
var replyTypes = sync.OnceValue(func() map[reflect.Type]reflect.Type {
	types := make(map[reflect.Type]reflect.Type)
	for _, request := range Kinds() {
		key, isRequest := KeyOfRequest(request.New())
		if !isRequest || request.Sender == Helper {
			continue
		}
		for _, k := range Kinds() {
			if reply := reflect.TypeOf(k.New()); reply.AssignableTo(key.reply) {
				types[reply] = key.reply
			}
		}
	}
	return types
})
