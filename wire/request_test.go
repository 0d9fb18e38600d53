package wire

import (
	"reflect"
	"testing"
)

// Each request has a reply in the table, which the other side may send. A request of mpiexec and its reply have the
// same key if they have the same ID; the key of no other message is the same.
func TestEveryRequestHasAReply(t *testing.T) {
	for _, k := range Kinds() {
		request := k.New()
		setIDs(request)
		want, isRequest := KeyOfRequest(request)
		if !isRequest {
			continue
		}
		replies := 0
		for _, r := range Kinds() {
			reply := r.New()
			setIDs(reply)
			isReply := reflect.TypeOf(reply).AssignableTo(want.reply)
			if key, is := KeyOfReply(reply); k.Sender != Helper && isReply != (is && key == want) {
				t.Errorf("%s answers %s: %v, and has the key %v", r.Name, k.Name, isReply, key)
			}
			if !isReply {
				continue
			}
			replies++
			if r.Sender == k.Sender && k.Sender != Either {
				t.Errorf("%s answers %s, and comes from the same side", r.Name, k.Name)
			}
			if _, is := KeyOfRequest(reply); is {
				t.Errorf("%s answers %s, and is a request, too", r.Name, k.Name)
			}
		}
		if _, several := request.(*Prepare); several && replies != 3 || !several && replies != 1 {
			t.Errorf("%s has %d kinds of replies", k.Name, replies)
		}
	}
}

// setIDs sets the field by which a reply with a ReplyID repeats that of its request.
func setIDs(m Message) {
	v := reflect.ValueOf(m).Elem()
	if p, ok := m.(*Prepare); ok {
		p.Group.Name = "x"
	}
	for _, name := range []string{"ID", "Group"} {
		if f := v.FieldByName(name); f.Kind() == reflect.String {
			f.SetString("x")
		}
	}
}

// Replies about different groups answer different requests. So do control replies with different IDs.
func TestReplyKeysHaveTheID(t *testing.T) {
	key := func(m Message) ReplyKey { k, _ := KeyOfReply(m); return k }
	for _, pair := range [][2]Message{
		{&Prepared{Group: "a"}, &Prepared{Group: "b"}}, {&ControlReply{ID: "a"}, &ControlReply{ID: "b"}}, {&Prepared{Group: "a"}, &ControlReply{ID: "a"}},
	} {
		if key(pair[0]) == key(pair[1]) {
			t.Errorf("%+v and %+v have the same key", pair[0], pair[1])
		}
	}
	if key(&Prepared{Group: "a"}) != key(&Refused{Group: "a"}) || key(&Refused{Group: "a"}) != key(&ClaimConflict{Group: "a"}) {
		t.Error("the replies to one Prepare have different keys")
	}
}
