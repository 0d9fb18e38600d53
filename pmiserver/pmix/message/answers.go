package message

import (
	"remshell/pmiserver/pmix/bfrops"
)

// AppendStatus adds the answer that is nothing but a status, or begins with it.
func AppendStatus(dst []byte, s Status) []byte { return bfrops.AppendUint32(dst, uint32(s)) }

// AppendJobInfo adds the answer to a Req: the client's namespace, and the job info as packs of
// one KVAL each. There is no status (pmix-wire.md 6.1).
func AppendJobInfo(dst []byte, namespace string, info []byte) []byte {
	return append(bfrops.AppendText(dst, namespace), info...)
}

// NewEvent returns the message that tells a client of an event, with infos as they stand in messages
// (pmix-wire.md 6.7).
func NewEvent(code int32, source bfrops.Proc, infos []byte) []byte {
	const unasked, notify = 0, 12 // a tag, and a command
	m := bfrops.AppendUint32(bfrops.AppendByte(NewReply(unasked), notify), uint32(code))
	m, _ = FinishReply(append(bfrops.AppendProc(m, source), infos...))
	return m
}

// AppendKnown adds to the answer of a Get what is known of a process, or with bfrops.Wildcard
// of a namespace: packs of one KVAL each, in parts (pmix-wire.md 6.4).
func AppendKnown(dst []byte, of bfrops.Proc, pairs ...[]byte) []byte {
	return bfrops.AppendBlob(dst, append([][]byte{bfrops.AppendProc(nil, of)}, pairs...)...)
}

// AppendConnected adds to the answer of a Connect the job info of one more namespace
// (pmix-wire.md 6.10).
func AppendConnected(dst []byte, namespace string, info []byte) []byte {
	return bfrops.AppendBlob(dst, bfrops.AppendText(nil, namespace), info)
}

// AppendFound adds the answer to a Lookup that has found something (pmix-wire.md 6.8).
func AppendFound(dst []byte, found []bfrops.Datum) []byte {
	return bfrops.AppendData(AppendStatus(dst, Success), found)
}

// AppendSpawned adds the answer to a Spawn whose ranks run (pmix-wire.md 6.9).
func AppendSpawned(dst []byte, namespace string) []byte {
	return bfrops.AppendText(AppendStatus(dst, Success), namespace)
}

// AppendQueryResult adds the answer to a Query that is served (pmix-wire.md 6.13).
func AppendQueryResult(dst []byte, infos []bfrops.Info) []byte {
	return bfrops.AppendInfos(AppendStatus(dst, Success), infos)
}

// AppendGroup adds the answer to a GroupConstruct in the form that clients of a major version
// read. context is the group's number, 0 if it wants none (PMIX-46).
func AppendGroup(dst []byte, major int, members []bfrops.Proc, context int) []byte {
	dst = AppendStatus(dst, Success)
	if major >= 5 {
		dst = bfrops.AppendProcs(dst, members)
	}
	if major >= 6 {
		dst = bfrops.AppendByte(dst, 1) // there is a number
	}
	dst = bfrops.AppendSize(dst, context)
	if major >= 6 {
		dst = bfrops.AppendSize(dst, 0) // infos of members
	}
	return dst
}
