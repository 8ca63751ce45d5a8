//! Buffers whose elements have a type.
//!
//! A convenience over [`Buffer`] that hides nothing: the bytes, their order and every call of a buffer stay as they are.

use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, Range};

use bytemuck::Pod;

use crate::error::invalid;
use crate::{Buffer, Device, Error, Result};

/// A buffer of a whole number of `T`s, which start on `T`'s alignment.
///
/// It derefs to its [`Buffer`], so `&x` stands wherever a `&Buffer` does. Lengths and ranges of its own calls count
/// elements.
///
/// ```
/// # fn main() -> rig::Result<()> {
/// let device = rig::open(rig_host::memory())?;
/// let x = device.from_slice(&[1.0f32, 2.0, 3.0])?;
/// x.write(|x| x[1] = 5.0)?;
/// assert_eq!(x.to_vec()?, [1.0, 5.0, 3.0]);
/// # Ok(())
/// # }
/// ```
pub struct TypedBuffer<T> {
    buffer: Buffer,
    element: PhantomData<fn() -> T>,
}

impl<T: Pod> TypedBuffer<T> {
    /// The elements.
    ///
    /// ```
    /// # fn main() -> rig::Result<()> {
    /// # let device = rig::open(rig_host::cores())?;
    /// # let x = device.from_slice(&[1.0_f32, 2.0, 3.0])?;
    /// assert_eq!(x.len(), 3);
    /// # Ok(())
    /// # }
    /// ```
    pub fn len(&self) -> usize {
        self.buffer.len() / size_of::<T>()
    }

    /// Whether there are no elements.
    ///
    /// ```
    /// # fn main() -> rig::Result<()> {
    /// # let device = rig::open(rig_host::cores())?;
    /// # let x = device.from_slice(&[1.0_f32, 2.0, 3.0])?;
    /// assert!(!x.is_empty());
    /// # Ok(())
    /// # }
    /// ```
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// [`Buffer::read`] of all elements.
    ///
    /// # Errors
    ///
    /// As [`Buffer::read`].
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> rig::Result<()> {
    /// # let device = rig::open(rig_host::cores())?;
    /// # let x = device.from_slice(&[1.0_f32, 2.0, 3.0])?;
    /// assert_eq!(x.read(|x| x.iter().sum::<f32>())?, 6.0);
    /// # Ok(())
    /// # }
    /// ```
    pub fn read<R>(&self, f: impl FnOnce(&[T]) -> R) -> Result<R> {
        self.buffer.read(f)
    }

    /// [`Buffer::write`] of all elements.
    ///
    /// # Errors
    ///
    /// As [`Buffer::write`].
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> rig::Result<()> {
    /// # let device = rig::open(rig_host::cores())?;
    /// # let x = device.from_slice(&[1.0_f32, 2.0, 3.0])?;
    /// x.write(|x| x.reverse())?;
    /// assert_eq!(x.to_vec()?, [3.0, 2.0, 1.0]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn write<R>(&self, f: impl FnOnce(&mut [T]) -> R) -> Result<R> {
        self.buffer.write(f)
    }

    /// The elements, after the last write of them.
    ///
    /// # Errors
    ///
    /// As [`Buffer::copy_to_slice`].
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> rig::Result<()> {
    /// # let device = rig::open(rig_host::cores())?;
    /// # let x = device.from_slice(&[1.0_f32, 2.0, 3.0])?;
    /// assert_eq!(x.to_vec()?, [1.0, 2.0, 3.0]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn to_vec(&self) -> Result<Vec<T>> {
        let mut elements = vec![T::zeroed(); self.len()];
        self.buffer.copy_to_slice(&mut elements)?;
        Ok(elements)
    }

    /// A view of the elements `range`: see [`Buffer::view`].
    ///
    /// # Errors
    ///
    /// Invalid if the range is not inside the buffer.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> rig::Result<()> {
    /// # let device = rig::open(rig_host::cores())?;
    /// # let x = device.from_slice(&[1.0_f32, 2.0, 3.0])?;
    /// assert_eq!(x.view(1..3)?.to_vec()?, [2.0, 3.0]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn view(&self, range: Range<usize>) -> Result<TypedBuffer<T>> {
        if range.start > range.end || range.end > self.len() {
            return invalid!(
                "the view {}..{} is not inside the {} elements of the buffer",
                range.start,
                range.end,
                self.len()
            );
        }
        let bytes = range.start * size_of::<T>()..range.end * size_of::<T>();
        Ok(TypedBuffer { buffer: self.buffer.view(bytes)?, element: PhantomData })
    }

    /// [`Buffer::borrow`], of the same elements.
    ///
    /// # Errors
    ///
    /// As [`Buffer::borrow`].
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> rig::Result<()> {
    /// # let device = rig::open(rig_host::cores())?;
    /// # let x = device.from_slice(&[1.0_f32, 2.0, 3.0])?;
    /// let memory = rig::open(rig_host::memory())?;
    /// assert_eq!(x.borrow(&memory)?.to_vec()?, [1.0, 2.0, 3.0]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn borrow(&self, device: &Device) -> Result<TypedBuffer<T>> {
        Ok(TypedBuffer { buffer: self.buffer.borrow(device)?, element: PhantomData })
    }

    /// [`Buffer::consume`].
    ///
    /// # Errors
    ///
    /// The buffer, unchanged, as [`Buffer::consume`].
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> rig::Result<()> {
    /// # let device = rig::open(rig_host::cores())?;
    /// # let x = device.from_slice(&[1.0_f32, 2.0, 3.0])?;
    /// let same = x.clone();
    /// let x = x.consume().expect_err("another handle sees the memory");
    /// drop(same);
    /// assert!(x.consume().is_ok());
    /// # Ok(())
    /// # }
    /// ```
    pub fn consume(self) -> std::result::Result<TypedBuffer<T>, TypedBuffer<T>> {
        let typed = |buffer| TypedBuffer { buffer, element: PhantomData };
        self.buffer.consume().map(typed).map_err(typed)
    }

    /// The buffer, as bytes.
    ///
    /// ```
    /// # fn main() -> rig::Result<()> {
    /// # let device = rig::open(rig_host::cores())?;
    /// # let x = device.from_slice(&[1.0_f32, 2.0, 3.0])?;
    /// assert_eq!(x.into_buffer().len(), 12);
    /// # Ok(())
    /// # }
    /// ```
    pub fn into_buffer(self) -> Buffer {
        self.buffer
    }
}

impl Buffer {
    /// The buffer, as elements of type `T`.
    ///
    /// # Errors
    ///
    /// Invalid if `T` has no bytes, if the buffer is no whole number of `T`s, or if it is a view that starts off `T`'s
    /// alignment in its allocation.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> rig::Result<()> {
    /// # let device = rig::open(rig_host::cores())?;
    /// let floats = device.buffer(12)?.typed::<f32>()?;
    /// assert_eq!(floats.len(), 3);
    /// assert!(device.buffer(13)?.typed::<f32>().is_err());
    /// # Ok(())
    /// # }
    /// ```
    pub fn typed<T: Pod>(self) -> Result<TypedBuffer<T>> {
        self.count_of::<T>()?;
        if !self.offset().is_multiple_of(align_of::<T>()) {
            return invalid!(
                "the view starts {} bytes into its allocation, off the {} of its elements",
                self.offset(),
                align_of::<T>()
            );
        }
        Ok(TypedBuffer { buffer: self, element: PhantomData })
    }
}

impl Device {
    /// `count` elements of type `T` in the device's own memory: [`buffer`](Device::buffer) of so many bytes.
    ///
    /// # Errors
    ///
    /// As [`buffer`](Device::buffer), and Invalid if `T` has no bytes.
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> rig::Result<()> {
    /// # let device = rig::open(rig_host::cores())?;
    /// let floats = device.typed::<f32>(3)?;
    /// floats.write(|floats| floats.fill(1.0))?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn typed<T: Pod>(&self, count: usize) -> Result<TypedBuffer<T>> {
        let Some(bytes) = count.checked_mul(size_of::<T>()) else {
            return Err(Error::OutOfMemory { bytes: u64::MAX });
        };
        self.buffer(bytes)?.typed()
    }

    /// A copy of `elements` in the device's own memory.
    ///
    /// # Errors
    ///
    /// As [`typed`](Device::typed) and [`Buffer::copy_from_slice`].
    ///
    /// # Examples
    ///
    /// ```
    /// # fn main() -> rig::Result<()> {
    /// # let device = rig::open(rig_host::cores())?;
    /// let floats = device.from_slice(&[1.0_f32, 2.0])?;
    /// assert_eq!(floats.to_vec()?, [1.0, 2.0]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn from_slice<T: Pod>(&self, elements: &[T]) -> Result<TypedBuffer<T>> {
        let typed = self.typed(elements.len())?;
        typed.copy_from_slice(elements)?;
        Ok(typed)
    }
}

impl<T> Deref for TypedBuffer<T> {
    type Target = Buffer;

    fn deref(&self) -> &Buffer {
        &self.buffer
    }
}

impl<T> Clone for TypedBuffer<T> {
    fn clone(&self) -> TypedBuffer<T> {
        TypedBuffer { buffer: self.buffer.clone(), element: PhantomData }
    }
}

impl<T> fmt::Debug for TypedBuffer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TypedBuffer")
            .field("buffer", &self.buffer)
            .field("element", &std::any::type_name::<T>())
            .finish()
    }
}
