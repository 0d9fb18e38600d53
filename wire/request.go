package wire

import (
	"reflect"
	"sync"
)

// A Request is a message to which the other side sends one reply. Rep is the type of the reply: a
// message, or an interface that several messages implement. A message becomes a Request by embedding
// AnsweredBy.
type Request[Rep any] interface {
	Message
	answeredBy(Rep)
}

// AnsweredBy, embedded in a request, names the type of its reply. The compiler checks callers by it, and
// mpiexec checks the replies of helpers by it (KeyOfRequest). Some requests of features do not use it:
// they have tables of their own at both ends, by ID.
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

// A ReplyKey is equal for a request and its reply. A reply is expected while a request with the same key
// has none.
type ReplyKey struct {
	reply reflect.Type
	ID    string // what ReplyID returns; empty if the messages have no ReplyID
}

// identified is implemented by requests and replies with an ID. The ID tells replies to several requests
// of one kind apart.
type identified interface{ ReplyID() string }

func (m *Prepare) ReplyID() string        { return m.Group.Name }
func (m *Prepared) ReplyID() string       { return m.Group }
func (m *Refused) ReplyID() string        { return m.Group }
func (m *ClaimConflict) ReplyID() string  { return m.Group }
func (m *ControlRequest) ReplyID() string { return m.ID }
func (m *ControlReply) ReplyID() string   { return m.ID }

func newReplyKey(reply reflect.Type, m Message) ReplyKey {
	key := ReplyKey{reply: reply}
	if m, ok := m.(identified); ok {
		key.ID = m.ReplyID()
	}
	return key
}

// KeyOfRequest returns the key of a request. It returns false for any other message.
func KeyOfRequest(m Message) (key ReplyKey, isRequest bool) {
	request, ok := m.(interface{ replyType() reflect.Type })
	if !ok {
		return ReplyKey{}, false
	}
	return newReplyKey(request.replyType(), m), true
}

// KeyOfReply returns the key of a message that is a reply to mpiexec. It returns false for any other
// message.
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

// replyTypes maps the type of each reply to mpiexec to the type that its request names in AnsweredBy.
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
