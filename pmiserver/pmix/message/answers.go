package message

import (
	"remshell/pmiserver/pmix/bfrops"
)

// AppendStatus appends the status of a reply. Many replies consist only of a status.
func AppendStatus(dst []byte, s Status) []byte { return bfrops.AppendUint32(dst, uint32(s)) }

// AppendJobInfo appends the reply to a Req: the client's namespace and the encoded job info. The reply has no
// status (pmix-wire.md 6.1).
func AppendJobInfo(dst []byte, namespace string, info []byte) []byte {
	return append(bfrops.AppendText(dst, namespace), info...)
}

// NewEvent returns a complete message that reports an event to a client. infos must already be encoded
// (pmix-wire.md 6.7).
func NewEvent(code int32, source bfrops.Proc, infos []byte) []byte {
	const noRequest, notify = 0, 12 // tag and command
	m := bfrops.AppendUint32(bfrops.AppendByte(NewReply(noRequest), notify), uint32(code))
	m, _ = FinishReply(append(bfrops.AppendProc(m, source), infos...))
	return m
}

// AppendKnown appends one element of the reply to a Get: a process and its data (pmix-wire.md 6.4). If the rank
// of proc is bfrops.Wildcard, pairs is the data of the whole namespace. The elements of pairs are concatenated.
func AppendKnown(dst []byte, proc bfrops.Proc, pairs ...[]byte) []byte {
	return bfrops.AppendBlob(dst, append([][]byte{bfrops.AppendProc(nil, proc)}, pairs...)...)
}

// AppendConnected appends the job info of one more namespace to the reply to a Connect (pmix-wire.md 6.10).
func AppendConnected(dst []byte, namespace string, info []byte) []byte {
	return bfrops.AppendBlob(dst, bfrops.AppendText(nil, namespace), info)
}

// AppendFound appends the reply to a Lookup that has found at least one name (pmix-wire.md 6.8).
func AppendFound(dst []byte, found []bfrops.Datum) []byte {
	return bfrops.AppendData(AppendStatus(dst, Success), found)
}

// AppendSpawned appends the reply to a Spawn, which is the namespace of the ranks that were started
// (pmix-wire.md 6.9).
func AppendSpawned(dst []byte, namespace string) []byte {
	return bfrops.AppendText(AppendStatus(dst, Success), namespace)
}

// AppendQueryResult appends the reply to a Query that is supported (pmix-wire.md 6.13).
func AppendQueryResult(dst []byte, infos []bfrops.Info) []byte {
	return bfrops.AppendInfos(AppendStatus(dst, Success), infos)
}

// AppendGroup appends the reply to a GroupConstruct. major is the major version of the client, on which the
// form of the reply depends. context is the context ID of the group, or 0 if the client does not want one
// (rule PMIX-46).
func AppendGroup(dst []byte, major int, members []bfrops.Proc, context int) []byte {
	dst = AppendStatus(dst, Success)
	if major >= 5 {
		dst = bfrops.AppendProcs(dst, members)
	}
	if major >= 6 {
		dst = bfrops.AppendByte(dst, 1) // a context ID follows
	}
	dst = bfrops.AppendSize(dst, context)
	if major >= 6 {
		dst = bfrops.AppendSize(dst, 0) // infos of members
	}
	return dst
}
