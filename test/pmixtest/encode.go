package pmixtest

import (
	"encoding/binary"
	"fmt"

	"remshell/pmiserver/pmix/bfrops"
	"remshell/pmiserver/pmix/message"
)

// Encode is the body by which a client makes a request.
func Encode(request message.Request) []byte {
	switch r := request.(type) {
	case *message.Req:
		return command(0)
	case *message.Abort:
		b := bfrops.AppendUint32(command(1), uint32(r.Code))
		return bfrops.AppendProcs(text(b, r.Message), r.Procs)
	case *message.Commit:
		return commit(r)
	case *message.Fence:
		return members(command(3), r.Procs, r.Options)
	case *message.Get:
		return get(r)
	case *message.Finalize:
		return command(5)
	case *message.Publish:
		return bfrops.AppendInfos(bfrops.AppendUint32(command(6), r.UID), r.Infos)
	case *message.Lookup:
		return names(command(7), r.UID, r.Keys, r.Options)
	case *message.Unpublish:
		return names(command(8), r.UID, r.Keys, r.Options)
	case *message.Spawn:
		return bfrops.AppendPrograms(bfrops.AppendInfos(command(9), r.Options), r.Programs)
	case *message.Connect:
		return members(command(10), r.Procs, r.Options)
	case *message.Disconnect:
		return members(command(11), r.Procs, r.Options)
	case *message.Notify:
		b := bfrops.AppendByte(bfrops.AppendUint32(command(12), uint32(r.Event)), byte(r.Range))
		return bfrops.AppendInfos(b, r.Infos)
	}
	return encodeOther(request)
}

func encodeOther(request message.Request) []byte {
	switch r := request.(type) {
	case *message.RegEvents:
		return bfrops.AppendInfos(bfrops.AppendStatuses(command(13), r.Codes), r.Options)
	case *message.DeregEvents:
		b := command(14)
		for _, code := range r.Codes {
			b = bfrops.AppendUint32(b, uint32(code))
		}
		return b
	case *message.Query:
		return bfrops.AppendQueries(command(15), r.Questions)
	case *message.Log:
		b := bfrops.AppendTime(command(16), r.Time)
		return bfrops.AppendInfos(bfrops.AppendInfos(b, r.Data), r.Directives)
	case *message.JobControl:
		return members(command(18), r.Procs, r.Directives)
	case *message.GroupConstruct:
		return members(bfrops.AppendText(command(24), r.ID), r.Procs, r.Options)
	case *message.GroupDestruct:
		return members(bfrops.AppendText(command(28), r.ID), r.Procs, r.Options)
	}
	panic(fmt.Sprintf("%T is not encoded here", request))
}

func command(number uint8) []byte { return bfrops.AppendByte(nil, number) }

// text adds a text, of which clients send nothing as a null pointer.
func text(b []byte, text string) []byte {
	if text == "" {
		return binary.BigEndian.AppendUint64(b, 1<<32)
	}
	return bfrops.AppendText(b, text)
}

func commit(c *message.Commit) []byte {
	b := command(2)
	for _, part := range c.Parts {
		b = bfrops.AppendBuffer(bfrops.AppendByte(b, byte(part.Scope)), part.Pairs)
	}
	return b
}

func get(g *message.Get) []byte {
	b := bfrops.AppendUint32(bfrops.AppendText(command(4), g.Namespace), uint32(g.Rank))
	b = bfrops.AppendInfos(b, g.Options)
	if g.Key == "" {
		return b
	}
	return bfrops.AppendText(b, g.Key)
}

func members(b []byte, procs []bfrops.Proc, options message.Options) []byte {
	return bfrops.AppendInfos(bfrops.AppendProcs(b, procs), options)
}

func names(b []byte, uid uint32, keys []string, options message.Options) []byte {
	return bfrops.AppendInfos(bfrops.AppendKeys(bfrops.AppendUint32(b, uid), keys), options)
}
