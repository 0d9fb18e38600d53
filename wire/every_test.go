package wire_test

import (
	"bytes"
	"math/rand/v2"
	"net"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"remshell/gpu"
	"remshell/job"
	"remshell/pin"
	"remshell/wire"
	"remshell/wire/wiretest"
)

// messages returns one message of every kind that is no feature's, with random values in its fields.
func messages(r *rand.Rand) []wire.Message {
	var all []wire.Message
	for _, kind := range wire.Kinds() {
		if kind.Example != nil {
			continue // package feature tests the messages of features
		}
		m := kind.New()
		fill(r, reflect.ValueOf(m).Elem())
		if p, ok := m.(*wire.Prepare); ok {
			p.Group.Size = 3 // larger than the number of any rank
			for i := range p.Ranks {
				p.Ranks[i].App = 0
			}
			for i, sent := range p.Apps { // the other fields are not sent
				p.Apps[i] = job.App{Argv: sent.Argv, Dir: sent.Dir, SearchBefore: sent.SearchBefore, Env: sent.Env, RankNeeds: job.RankNeeds{GPUs: sent.GPUs}}
			}
		}
		if s, ok := m.(*wire.Surveyed); ok {
			s.Occupancy.OwnRanks, s.OutsideOccupancy.OwnRanks = 0, 0 // nor are these
		}
		all = append(all, m)
	}
	return all
}

// fill sets v to a random value that is valid for every field. Lists are never empty, because nil and
// empty lists are encoded alike.
func fill(r *rand.Rand, v reflect.Value) {
	switch p := v.Addr().Interface().(type) {
	case *time.Time:
		*p = time.Unix(0, r.Int64())
		return
	case *[]wire.Setting:
		*p = []wire.Setting{&testSetting{"a"}}
		return
	case *[]int: // CPUs are different
		*p = r.Perm(1000)[:1+r.IntN(3)]
		return
	case *[]int64: // not more than there are columns
		*p = []int64{1 + r.Int64N(2)}
		return
	case *gpu.GPU:
		*p = gpu.GPU{Vendor: gpu.NVIDIA, Index: int(serial.Add(1)) % wire.MaxGPUs, Tiles: []int{1}, Address: "0000:c7:00.0", Driver: "x"}
		return
	case *pin.Core:
		*p = pin.Core{CPUs: []int{int(serial.Add(1)) % wire.MaxCPUs}}
		return
	case *job.Attributes:
		*p = job.Attributes{Speed: 2400, SpeedQuality: job.SpeedNominal, Networks: []string{"ethernet", "ib-hdr"}, NetSpeed: 1000, CPUModel: "m", GPUModels: []string{"g"}}
		return
	case *job.Gang:
		*p = job.Gang{Party: r.IntN(3), GangTerms: job.GangTerms{Parties: 3, Slice: job.MinSlice}, Memory: 1 + r.Int64N(9)}
		return
	case *job.Exit:
		*p = job.Exit{Rank: r.IntN(100), Code: 1 + r.IntN(255), Core: true, PMI: job.PMIAborted, Usage: job.Usage{Wall: 1, User: 2, System: 3, MaxRSS: 4, InBlocks: 5, OutBlocks: 6}, Hint: "h", MPILibrary: "b", StdinRead: 7}
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(r, v.Elem())
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Field(i).CanSet() {
				fill(r, v.Field(i))
			}
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1+r.IntN(3), 4))
		for i := range v.Len() {
			fill(r, v.Index(i))
		}
	case reflect.Array:
		for i := range v.Len() {
			fill(r, v.Index(i))
		}
	case reflect.String:
		v.SetString(strings.Repeat("é\n\x00a", r.IntN(8)))
	case reflect.Bool:
		v.SetBool(r.IntN(2) == 1)
	case reflect.Int, reflect.Int8, reflect.Int64: // 1 and 2 are valid in every enumeration
		v.SetInt(1 + r.Int64N(2))
	case reflect.Uint8:
		v.SetUint(uint64(r.IntN(256)))
	case reflect.Float64:
		v.SetFloat(r.Float64() * wire.MaxLoad)
	default:
		panic("no way to fill " + v.Type().String())
	}
}

// serial makes different numbers, up to a wraparound.
var serial atomic.Int64

func TestSendRecvEveryMessage(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	a, b := net.Pipe()
	left, right := wire.NewConn(a, wire.Launcher), wire.NewConn(b, wire.Side(0))
	defer left.Abandon()
	defer right.Abandon()
	for range 20 {
		sent := messages(r)
		for _, m := range sent {
			if err := left.Send(m); err != nil {
				t.Fatal(err)
			}
		}
		for _, want := range sent {
			got, err := right.Recv()
			if err != nil || !reflect.DeepEqual(got, want) {
				t.Fatalf("sent %+v\n got %+v, %v", want, got, err)
			}
		}
	}
}

// inside stands for a type with an embedded InProcess, as a dialer returns it.
type inside struct{ *wire.InProcess }

func TestInProcessDeliversEveryMessage(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	near, far := wire.NewInProcess()
	left, right := wire.NewConn(inside{near}, wire.Helper), wire.NewConn(far, wire.Side(0))
	left.SendHello(&wire.Hello{Version: wire.Version})
	if hello, noise, err := right.ReceiveHello(); err != nil || hello.Version != wire.Version || len(noise) > 0 {
		t.Fatalf("greeted with %+v, %q, %v", hello, noise, err)
	}
	sent := messages(r)
	for _, m := range sent {
		if err := left.Send(m); err != nil {
			t.Fatal(err)
		}
	}
	left.SendFrame(wire.Encode(&wire.Ping{}))
	left.Flush()
	for _, want := range append(sent, &wire.Ping{}) {
		got, err := right.Recv()
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Fatalf("sent %+v\n got %+v, %v", want, got, err)
		}
	}
}

// A message that is accepted encodes to the same bytes, and takes memory in proportion to its frame.
func FuzzRecv(f *testing.F) {
	for _, m := range messages(rand.New(rand.NewPCG(3, 4))) {
		f.Add([]byte(wire.Encode(m)))
	}
	for _, frame := range hostileFrames(4 << 10) {
		f.Add(frame)
	}
	for _, k := range wire.Kinds() {
		if k.Example != nil {
			f.Add([]byte(wire.Encode(k.Example(1))))
		}
	}
	f.Fuzz(func(t *testing.T, frame []byte) {
		m, err, took := wiretest.Receive(frame, wire.Side(0))
		if most := uint64(96*len(frame) + 256<<10); took > most {
			t.Errorf("%d bytes took %d, more than %d", len(frame), took, most)
		}
		if err != nil {
			return
		}
		again, err, _ := wiretest.Receive(wire.Encode(m), wire.Side(0))
		if err != nil || !bytes.Equal(wire.Encode(again), wire.Encode(m)) {
			t.Errorf("%+v came back as %+v, %v", m, again, err)
		}
	})
}
