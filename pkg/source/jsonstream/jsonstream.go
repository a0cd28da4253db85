// Package jsonstream reads JSON of unknown size in bounded memory and time. It bounds the number of elements, and the size of a
// value that is read at once.
package jsonstream

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// MaxValueBytes is the largest value or key that is read at once.
const MaxValueBytes = 64 << 10

// ReadError is an error of the reader, not of the JSON.
type ReadError struct{ error }

// Unwrap returns the reader's error.
func (e *ReadError) Unwrap() error { return e.error }

// TooManyError is a JSON value with too many elements.
type TooManyError struct{ Max int64 }

// Error names the limit.
func (e *TooManyError) Error() string {
	return fmt.Sprintf("there are more than %d elements", e.Max)
}

// Decoder reads one JSON value. Object and Array read values of any size, Decode and Skip values of at most MaxValueBytes.
type Decoder struct {
	json *json.Decoder
	// elements is the number of elements of objects and arrays so far.
	elements, maxElements int64
}

// NewDecoder returns a decoder of r. The decoder fails with a *ReadError where r fails, and with a *TooManyError beyond maxElements
// elements of objects and arrays.
func NewDecoder(r io.Reader, maxElements int64) *Decoder {
	window := &window{r: r}
	window.json = json.NewDecoder(window)
	return &Decoder{json: window.json, maxElements: maxElements}
}

// window fails if the decoder reads more than MaxValueBytes beyond the beginning of a value, which the decoder buffers whole.
type window struct {
	r         io.Reader
	json      *json.Decoder
	bytesRead int64
}

func (w *window) Read(p []byte) (int, error) {
	left := w.json.InputOffset() + MaxValueBytes - w.bytesRead
	if left <= 0 {
		return 0, fmt.Errorf("a value is larger than %d bytes", MaxValueBytes)
	}
	n, err := w.r.Read(p[:min(int64(len(p)), left)])
	w.bytesRead += int64(n)
	if err != nil && !errors.Is(err, io.EOF) {
		err = &ReadError{err}
	}
	return n, err
}

// Object calls member for each key of an object; member must consume the value. A null is an empty object.
func (d *Decoder) Object(member func(key string) error) error {
	token, err := d.token()
	if err != nil || token == nil {
		return err
	}
	if token != json.Delim('{') {
		return fmt.Errorf("%s where an object is needed", kindOf(token))
	}
	return d.elementsUntilEnd(func() error {
		key, err := d.token()
		if err != nil {
			return err
		}
		return member(key.(string)) // the library accepts no other key
	})
}

// Array calls element for each element of an array; element must consume it. A null is an empty array.
func (d *Decoder) Array(element func() error) error {
	token, err := d.token()
	if err != nil || token == nil {
		return err
	}
	if token != json.Delim('[') {
		return fmt.Errorf("%s where an array is needed", kindOf(token))
	}
	return d.elementsUntilEnd(element)
}

func (d *Decoder) elementsUntilEnd(element func() error) error {
	for d.json.More() {
		if d.elements++; d.elements > d.maxElements {
			return &TooManyError{Max: d.maxElements}
		}
		if err := element(); err != nil {
			return err
		}
	}
	_, err := d.token()
	return err
}

// Decode reads a value as json.Unmarshal does.
func (d *Decoder) Decode(into any) error { return unexpected(d.json.Decode(into)) }

// Skip reads a value and drops it.
func (d *Decoder) Skip() error { return d.Decode(new(skipped)) }

type skipped struct{}

func (*skipped) UnmarshalJSON([]byte) error { return nil }

// End fails if anything but white space follows.
func (d *Decoder) End() error {
	_, err := d.json.Token()
	switch {
	case errors.Is(err, io.EOF):
		return nil
	case err != nil:
		return err
	}
	return errors.New("more follows the end")
}

func (d *Decoder) token() (json.Token, error) {
	token, err := d.json.Token()
	return token, unexpected(err)
}

func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

func kindOf(token json.Token) string {
	switch token := token.(type) {
	case json.Delim:
		return fmt.Sprintf("%q", token.String())
	case string:
		return "a string"
	case bool:
		return "a bool"
	}
	return "a number"
}
