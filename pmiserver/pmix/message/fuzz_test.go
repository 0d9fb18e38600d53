package message_test

import (
	"bytes"
	"errors"
	"reflect"
	"runtime"
	"testing"

	"remshell/pmiserver/pmix/message"
	"remshell/test/pmixtest"
)

// FuzzParse checks that any message is one request that can be encoded again, or one refusal, and that
// the memory used is in proportion to its length.
func FuzzParse(f *testing.F) {
	v := pmixtest.Read(f)
	for _, m := range v.ClientMessages() {
		f.Add(m.Body())
	}
	for _, h := range v.Hostile {
		if h.Stage == "message" {
			f.Add([]byte(h.Hex[message.HeaderSize:]))
		}
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		request, err := message.Parse(body)
		runtime.ReadMemStats(&after)
		if took := after.TotalAlloc - before.TotalAlloc; took > uint64(64*len(body)+64<<10) {
			t.Errorf("%d bytes for a message of %d", took, len(body))
		}
		if err != nil {
			refused(t, body, err)
			return
		}
		again, err := message.Parse(pmixtest.Encode(request))
		if err != nil || !reflect.DeepEqual(again, request) {
			t.Errorf("%+v\nread back: %+v, %v", request, again, err)
		}
		ask(request)
	})
}

// refused checks that an error of Parse is ErrEmpty or a *Refusal.
func refused(t *testing.T, body []byte, err error) {
	var refusal *message.Refusal
	switch {
	case len(body) == 0 && err == message.ErrEmpty:
	case !errors.As(err, &refusal):
		t.Errorf("%x: %v", body, err)
	case refusal.Status != message.Malformed && refusal.Status != message.BadParameter && refusal.Status != message.NotSupported:
		t.Errorf("%x: %v, status %v", body, err, refusal.Status)
	}
}

// ask calls all methods of a request that the server uses.
func ask(request message.Request) {
	message.Trace(request)
	switch r := request.(type) {
	case *message.Fence:
		r.Options.Collect()
		r.Options.Timeout()
	case *message.Get:
		r.Options.Immediate()
	case *message.Publish:
		r.Infos.Data()
		r.Infos.Persistence()
	case *message.Lookup:
		r.Options.Wait()
	case *message.GroupConstruct:
		r.Options.ContextID()
	case *message.Log:
		r.Texts()
	case *message.JobControl:
		r.Cleanup()
	}
}

// FuzzHandshake checks that any first message is a valid handshake or an error.
func FuzzHandshake(f *testing.F) {
	v := pmixtest.Read(f)
	for _, c := range v.Conversations {
		f.Add([]byte(c.Messages[0].Hex))
	}
	for _, h := range v.Hostile {
		if h.Stage == "handshake" {
			f.Add([]byte(h.Hex))
		}
	}
	f.Fuzz(func(t *testing.T, first []byte) {
		if len(first) < message.HeaderSize {
			return
		}
		size, err := message.ParseFirstHeader([message.HeaderSize]byte(first))
		if size < 0 || size > message.MaxHandshake || err != nil && size != 0 {
			t.Fatalf("a body of %d bytes, %v", size, err)
		}
		h, err := message.ParseHandshake(first[message.HeaderSize:])
		if err != nil {
			return
		}
		status, why := h.Refusal(h.UID)
		if (status == message.Success) != (why == "") {
			t.Errorf("%+v: %v, %q", h, status, why)
		}
		if major := h.Major(); major < 0 || len(h.Namespace) > 255 {
			t.Errorf("%+v: version %d", h, major)
		}
	})
}

// FuzzHeader checks that any header has a valid size or is refused, and that our headers decode.
func FuzzHeader(f *testing.F) {
	for _, m := range pmixtest.Read(f).ClientMessages()[:20] {
		f.Add([]byte(m.Hex[:message.HeaderSize]))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		if len(b) < message.HeaderSize {
			return
		}
		h, err := message.ParseHeader([message.HeaderSize]byte(b))
		if err != nil {
			return
		}
		if h.Size < 0 || h.Size > message.MaxMessage {
			t.Fatalf("%+v", h)
		}
		if own := message.AppendHeader(nil, h.Tag, h.Size); !bytes.Equal(own[4:12], b[4:12]) {
			t.Errorf("%x is written %x", b, own)
		}
	})
}
