package stack

// A ruleKind says how to find the value that a register has in the caller (DWARF 5, 6.4.1).
type ruleKind uint8

const (
	ruleUnset         ruleKind = iota // not mentioned: the same value, unless the ABI lets the callee change it
	ruleUndefined                     // cannot be recovered
	ruleSame                          // not changed
	ruleOffset                        // saved at CFA + number
	ruleValOffset                     // CFA + number itself
	ruleRegister                      // in the register with this number
	ruleExpression                    // saved at the address that an expression gives
	ruleValExpression                 // the value of an expression
)

type rule struct {
	kind       ruleKind
	number     int64
	expression []byte
}

// A row holds the unwinding rules for one address of a function. The canonical frame address (CFA) is the register
// cfa.number plus cfaOffset, or the value of an expression.
type row struct {
	cfa       rule // ruleRegister or ruleValExpression
	cfaOffset int64
	registers [registerCount]rule
}

// maxRemembered is the maximum number of rows that DW_CFA_remember_state may save at the same time.
const maxRemembered = 32

// rowAt executes the call frame instructions of a function up to an address, and returns the row for that address. It
// returns false if an instruction is invalid.
func (f *fde) rowAt(address uint64) (r row, ok bool) {
	x := executor{fde: f, address: address, at: f.begin}
	if !x.run(f.cie.instructions) {
		return r, false
	}
	x.initial, x.at = x.row, f.begin
	if !x.run(f.instructions) {
		return r, false
	}
	return x.row, true
}

// An executor executes call frame instructions until it reaches the wanted address.
type executor struct {
	*fde
	row        row
	initial    row // after the instructions of the CIE
	remembered []row
	address    uint64 // where to stop
	at         uint64 // address of the present row
}

func (x *executor) set(register uint64, r rule) {
	if register < registerCount {
		x.row.registers[register] = r
	}
}

// run executes call frame instructions, and stops after the instructions for x.address. It returns false if an
// instruction is invalid.
func (x *executor) run(instructions []byte) bool {
	b := &byteReader{data: instructions}
	for b.left() > 0 && !b.failed {
		op := b.u8()
		low := uint64(op & 0x3f)
		switch op & 0xc0 {
		case 0x40: // DW_CFA_advance_loc
			if x.advance(low) {
				return true
			}
			continue
		case 0x80: // DW_CFA_offset
			x.set(low, rule{kind: ruleOffset, number: int64(b.uleb()) * x.dataFactor})
			continue
		case 0xc0: // DW_CFA_restore
			x.restore(low)
			continue
		}
		var past bool
		switch op {
		case 0x00: // DW_CFA_nop
		case 0x01: // DW_CFA_set_loc: not written by compilers
			return false
		case 0x02:
			past = x.advance(uint64(b.u8()))
		case 0x03:
			past = x.advance(uint64(b.u16()))
		case 0x04:
			past = x.advance(uint64(b.u32()))
		case 0x05: // DW_CFA_offset_extended
			register := b.uleb()
			x.set(register, rule{kind: ruleOffset, number: int64(b.uleb()) * x.dataFactor})
		case 0x06:
			x.restore(b.uleb())
		case 0x07:
			x.set(b.uleb(), rule{kind: ruleUndefined})
		case 0x08:
			x.set(b.uleb(), rule{kind: ruleSame})
		case 0x09:
			register := b.uleb()
			x.set(register, rule{kind: ruleRegister, number: int64(b.uleb())})
		case 0x0a: // DW_CFA_remember_state
			if len(x.remembered) == maxRemembered {
				return false
			}
			x.remembered = append(x.remembered, x.row)
		case 0x0b: // DW_CFA_restore_state
			if len(x.remembered) == 0 {
				return false
			}
			x.row, x.remembered = x.remembered[len(x.remembered)-1], x.remembered[:len(x.remembered)-1]
		case 0x0c: // DW_CFA_def_cfa
			x.row.cfa = rule{kind: ruleRegister, number: int64(b.uleb())}
			x.row.cfaOffset = int64(b.uleb())
		case 0x0d:
			x.row.cfa = rule{kind: ruleRegister, number: int64(b.uleb())}
		case 0x0e:
			x.row.cfaOffset = int64(b.uleb())
		case 0x0f: // DW_CFA_def_cfa_expression
			x.row.cfa = rule{kind: ruleValExpression, expression: b.bytes(b.uleb())}
		case 0x10, 0x16: // DW_CFA_expression, DW_CFA_val_expression
			register := b.uleb()
			r := rule{kind: ruleExpression, expression: b.bytes(b.uleb())}
			if op == 0x16 {
				r.kind = ruleValExpression
			}
			x.set(register, r)
		case 0x11:
			register := b.uleb()
			x.set(register, rule{kind: ruleOffset, number: b.sleb() * x.dataFactor})
		case 0x12:
			x.row.cfa = rule{kind: ruleRegister, number: int64(b.uleb())}
			x.row.cfaOffset = b.sleb() * x.dataFactor
		case 0x13:
			x.row.cfaOffset = b.sleb() * x.dataFactor
		case 0x14:
			register := b.uleb()
			x.set(register, rule{kind: ruleValOffset, number: int64(b.uleb()) * x.dataFactor})
		case 0x15:
			register := b.uleb()
			x.set(register, rule{kind: ruleValOffset, number: b.sleb() * x.dataFactor})
		case 0x2d: // DW_CFA_AARCH64_negate_ra_state: authentication bits are masked
		case 0x2e: // DW_CFA_GNU_args_size
			b.uleb()
		case 0x2f: // DW_CFA_GNU_negative_offset_extended
			register := b.uleb()
			x.set(register, rule{kind: ruleOffset, number: -int64(b.uleb()) * x.dataFactor})
		default:
			return false
		}
		if past {
			return true
		}
	}
	return !b.failed
}

// advance moves to the row of a later address. It returns true if that address is beyond the wanted address.
func (x *executor) advance(delta uint64) bool {
	at := x.at + delta*x.codeFactor
	if at > x.address || at < x.at {
		return true
	}
	x.at = at
	return false
}

func (x *executor) restore(register uint64) {
	if register < registerCount {
		x.row.registers[register] = x.initial.registers[register]
	}
}
