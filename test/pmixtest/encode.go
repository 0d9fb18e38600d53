package pmixtest

import (
	"encoding/binary"
	"fmt"

	"remshell/pmiserver/pmix/bfrops"
	"remshell/pmiserver/pmix/message"
)

// Encode returns the body of a request as a client sends it.
func Encode(request message.Request) []byte {
	switch r := request.(type) {
	case *message.Req:
		return encodeCommand(0)
	case *message.Abort:
		b := bfrops.AppendUint32(encodeCommand(1), uint32(r.Code))
		return bfrops.AppendProcs(appendText(b, r.Message), r.Procs)
	case *message.Commit:
		return encodeCommit(r)
	case *message.Fence:
		return encodeProcs(encodeCommand(3), r.Procs, r.Options)
	case *message.Get:
		return encodeGet(r)
	case *message.Finalize:
		return encodeCommand(5)
	case *message.Publish:
		return bfrops.AppendInfos(bfrops.AppendUint32(encodeCommand(6), r.UID), r.Infos)
	case *message.Lookup:
		return encodeNames(encodeCommand(7), r.UID, r.Keys, r.Options)
	case *message.Unpublish:
		return encodeNames(encodeCommand(8), r.UID, r.Keys, r.Options)
	case *message.Spawn:
		return bfrops.AppendPrograms(bfrops.AppendInfos(encodeCommand(9), r.Options), r.Programs)
	case *message.Connect:
		return encodeProcs(encodeCommand(10), r.Procs, r.Options)
	case *message.Disconnect:
		return encodeProcs(encodeCommand(11), r.Procs, r.Options)
	case *message.Notify:
		b := bfrops.AppendByte(bfrops.AppendUint32(encodeCommand(12), uint32(r.Event)), byte(r.Range))
		return bfrops.AppendInfos(b, r.Infos)
	}
	return encodeOther(request)
}

func encodeOther(request message.Request) []byte {
	switch r := request.(type) {
	case *message.RegEvents:
		return bfrops.AppendInfos(bfrops.AppendStatuses(encodeCommand(13), r.Codes), r.Options)
	case *message.DeregEvents:
		b := encodeCommand(14)
		for _, code := range r.Codes {
			b = bfrops.AppendUint32(b, uint32(code))
		}
		return b
	case *message.Query:
		return bfrops.AppendQueries(encodeCommand(15), r.Questions)
	case *message.Log:
		b := bfrops.AppendTime(encodeCommand(16), r.Time)
		return bfrops.AppendInfos(bfrops.AppendInfos(b, r.Data), r.Directives)
	case *message.JobControl:
		return encodeProcs(encodeCommand(18), r.Procs, r.Directives)
	case *message.GroupConstruct:
		return encodeProcs(bfrops.AppendText(encodeCommand(24), r.ID), r.Procs, r.Options)
	case *message.GroupDestruct:
		return encodeProcs(bfrops.AppendText(encodeCommand(28), r.ID), r.Procs, r.Options)
	}
	panic(fmt.Sprintf("%T is not encoded here", request))
}

func encodeCommand(number uint8) []byte { return bfrops.AppendByte(nil, number) }

// appendText appends a string. Clients send an empty one as a null pointer, with length 0.
func appendText(b []byte, text string) []byte {
	if text == "" {
		return binary.BigEndian.AppendUint64(b, 1<<32)
	}
	return bfrops.AppendText(b, text)
}

func encodeCommit(c *message.Commit) []byte {
	b := encodeCommand(2)
	for _, part := range c.Parts {
		b = bfrops.AppendBuffer(bfrops.AppendByte(b, byte(part.Scope)), part.Pairs)
	}
	return b
}

func encodeGet(g *message.Get) []byte {
	b := bfrops.AppendUint32(bfrops.AppendText(encodeCommand(4), g.Namespace), uint32(g.Rank))
	b = bfrops.AppendInfos(b, g.Options)
	if g.Key == "" {
		return b
	}
	return bfrops.AppendText(b, g.Key)
}

func encodeProcs(b []byte, procs []bfrops.Proc, options message.Options) []byte {
	return bfrops.AppendInfos(bfrops.AppendProcs(b, procs), options)
}

func encodeNames(b []byte, uid uint32, keys []string, options message.Options) []byte {
	return bfrops.AppendInfos(bfrops.AppendKeys(bfrops.AppendUint32(b, uid), keys), options)
}
