package learned

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
)

// key is the secret key of hashes: nobody can choose names of equal hash. Unlike a maphash.Seed, it can be saved.
type key [16]byte

func newKey() (k key) {
	_, _ = rand.Read(k[:]) // it never fails
	return k
}

// messageRoom is the room for a key and the names of most pods. Longer messages are allocated.
const messageRoom = 384

// hash returns a hash of the names. It does not allocate.
func (k key) hash(names ...string) uint64 {
	message := append(make([]byte, 0, messageRoom), k[:]...)
	for _, name := range names {
		message = appendName(message, name)
	}
	return sum(message)
}

// appendName appends the name behind its length, so that no two lists of names are the same message.
func appendName(message []byte, name string) []byte {
	return append(binary.AppendUvarint(message, uint64(len(name))), name...)
}

// sum is the hash of a message that begins with a key. Nobody sees the hash, so the message needs no protection at its end.
func sum(message []byte) uint64 {
	digest := sha256.Sum256(message)
	return binary.LittleEndian.Uint64(digest[:])
}
