package wire_test

import (
	"bytes"
	"encoding/binary"
	"reflect"
	"strings"
	"testing"

	"remshell/wire"
	"remshell/wire/wiretest"
)

// A testSetting is a setting of a feature that does not exist.
type testSetting struct{ Word string }

const testSettingNumber = 255

func (s *testSetting) Fields(c *wire.Codec) { c.Word(&s.Word, "word") }

func init() { wire.RegisterSetting[testSetting](testSettingNumber, &testSetting{"example"}) }

// Settings of features reach the helper, and a Prepare without any has one byte for them.
func TestSettingsTravelInPrepare(t *testing.T) {
	sent := &wire.Prepare{Settings: []wire.Setting{&testSetting{"é"}}}
	m, err, _ := wiretest.Receive(wire.Encode(sent), wire.Helper)
	if err != nil {
		t.Fatal(err)
	}
	got, has := wire.SettingOf[*testSetting](m.(*wire.Prepare).Settings)
	if !has || !reflect.DeepEqual(got, sent.Settings[0]) {
		t.Errorf("%+v came as %+v", sent.Settings, m.(*wire.Prepare).Settings)
	}
	if _, has := wire.SettingOf[*testSetting](nil); has {
		t.Error("there is a setting that was not sent")
	}
	if with, without := wire.Encode(sent), wire.Encode(new(wire.Prepare)); len(with)-len(without) != len(settingBytes(testSettingNumber, "é")) {
		t.Errorf("a setting of %d bytes takes %d", len(settingBytes(testSettingNumber, "é")), len(with)-len(without))
	}
}

// settingBytes returns the bytes of a setting with a word.
func settingBytes(number int64, word string) []byte {
	b := binary.AppendVarint(nil, number)
	b = binary.AppendVarint(b, int64(len(word)))
	return append(b, word...)
}

// A helper refuses settings that it does not know, that are there twice, too many or too long.
func TestSettingsOfAHostileMpiexec(t *testing.T) {
	body := func(count int64, settings ...[]byte) []byte {
		frame := wire.Encode(new(wire.Prepare))
		_, n := binary.Uvarint(frame[1:])
		b := binary.AppendVarint(frame[1+n:len(frame)-1:len(frame)-1], count) // the last byte is the number of settings
		return append(b, bytes.Join(settings, nil)...)
	}
	known := settingBytes(testSettingNumber, "w")
	for _, test := range []struct {
		name string
		body []byte
		want string // "": it is accepted
	}{
		{"one", body(1, known), ""},
		{"unknown", body(1, settingBytes(254, "w")), "setting 254"},
		{"negative", body(1, settingBytes(-1, "w")), "setting -1"},
		{"too large a number", body(1, settingBytes(256, "w")), "setting 256"},
		{"twice", body(2, known, known), "setting 255"},
		{"too many", body(257, bytes.Repeat(known, 257)), "257 settings"},
		{"more than there are", body(1<<40, known), "of unknown kind"},
		{"too long", body(1, settingBytes(testSettingNumber, strings.Repeat("w", wire.MaxWord+1))), "of 257 bytes"},
		{"cut", body(1, known[:2]), "of unknown kind"},
	} {
		frame := binary.AppendUvarint([]byte{3}, uint64(len(test.body)))
		_, err, _ := wiretest.Receive(append(frame, test.body...), wire.Helper)
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", test.name, err, test.want)
		}
	}
}

// A setting that no feature owns is a mistake in the program, as is a number that two have.
func TestSettingNumbersAreUnique(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("two settings have the same number")
		}
	}()
	wire.RegisterSetting[testSetting](testSettingNumber)
}
