//! A walk over a value through its serialisation that finds field elements which are not reduced. It sees
//! every element, in our messages and in stwo's, private fields included.

use std::fmt;

use serde::ser::{self, Serialize, Serializer};
use stwo::core::fields::m31::P;

/// The name under which stwo serialises a base field element (a newtype of `u32`).
const FIELD_NAME: &str = "M31";

/// Checks that every base field element in `value` is below the modulus.
pub fn check_canonical_fields<T: Serialize + ?Sized>(value: &T) -> Result<(), Stop> {
    value.serialize(Walk { in_field: false })
}

/// Why the walk ended.
#[derive(Debug)]
pub enum Stop {
    /// At a field element that is not reduced.
    Field(u32),
    /// At a value that cannot be serialised.
    Custom(String),
}

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Field(value) => write!(f, "field element {value}"),
            Self::Custom(reason) => f.write_str(reason),
        }
    }
}

impl std::error::Error for Stop {}

impl ser::Error for Stop {
    fn custom<T: fmt::Display>(reason: T) -> Self {
        Self::Custom(reason.to_string())
    }
}

/// The walk; `in_field` directly inside a base field element.
#[derive(Clone, Copy)]
struct Walk {
    in_field: bool,
}

impl Walk {
    fn enter<T: Serialize + ?Sized>(value: &T) -> Result<(), Stop> {
        value.serialize(Self { in_field: false })
    }
}

/// Leaves that are no field elements.
macro_rules! leaves {
    ($($method:ident($($arg:ty),*);)*) => {
        $(fn $method(self, $(_: $arg),*) -> Result<(), Stop> { Ok(()) })*
    };
}

/// Containers: each part is walked on its own.
macro_rules! containers {
    ($($method:ident($($arg:ty),*) -> $container:ident;)*) => {
        $(
            type $container = Self;
            fn $method(self, $(_: $arg),*) -> Result<Self, Stop> { Ok(self) }
        )*
    };
}

impl Serializer for Walk {
    type Ok = ();
    type Error = Stop;

    fn serialize_u32(self, v: u32) -> Result<(), Stop> {
        if self.in_field && v >= P {
            return Err(Stop::Field(v));
        }
        Ok(())
    }

    fn serialize_newtype_struct<T: Serialize + ?Sized>(self, name: &'static str, value: &T) -> Result<(), Stop> {
        value.serialize(Self {
            in_field: name == FIELD_NAME,
        })
    }

    fn serialize_newtype_variant<T: Serialize + ?Sized>(
        self,
        _: &'static str,
        _: u32,
        _: &'static str,
        value: &T,
    ) -> Result<(), Stop> {
        Self::enter(value)
    }

    fn serialize_some<T: Serialize + ?Sized>(self, value: &T) -> Result<(), Stop> {
        Self::enter(value)
    }

    // As in the encoding, so that the walk sees what is written.
    fn is_human_readable(&self) -> bool {
        false
    }

    leaves! {
        serialize_bool(bool);
        serialize_i8(i8);
        serialize_i16(i16);
        serialize_i32(i32);
        serialize_i64(i64);
        serialize_i128(i128);
        serialize_u8(u8);
        serialize_u16(u16);
        serialize_u64(u64);
        serialize_u128(u128);
        serialize_f32(f32);
        serialize_f64(f64);
        serialize_char(char);
        serialize_str(&str);
        serialize_bytes(&[u8]);
        serialize_none();
        serialize_unit();
        serialize_unit_struct(&'static str);
        serialize_unit_variant(&'static str, u32, &'static str);
    }

    containers! {
        serialize_seq(Option<usize>) -> SerializeSeq;
        serialize_tuple(usize) -> SerializeTuple;
        serialize_tuple_struct(&'static str, usize) -> SerializeTupleStruct;
        serialize_tuple_variant(&'static str, u32, &'static str, usize) -> SerializeTupleVariant;
        serialize_map(Option<usize>) -> SerializeMap;
        serialize_struct(&'static str, usize) -> SerializeStruct;
        serialize_struct_variant(&'static str, u32, &'static str, usize) -> SerializeStructVariant;
    }
}

/// The parts of the containers.
macro_rules! parts {
    ($($container:ident { $($method:ident($($key:ty)?)),+ })*) => {
        $(impl ser::$container for Walk {
            type Ok = ();
            type Error = Stop;

            $(fn $method<T: Serialize + ?Sized>(&mut self, $(_: $key,)? value: &T) -> Result<(), Stop> {
                Self::enter(value)
            })+

            fn end(self) -> Result<(), Stop> {
                Ok(())
            }
        })*
    };
}

parts! {
    SerializeSeq { serialize_element() }
    SerializeTuple { serialize_element() }
    SerializeTupleStruct { serialize_field() }
    SerializeTupleVariant { serialize_field() }
    SerializeMap { serialize_key(), serialize_value() }
    SerializeStruct { serialize_field(&'static str) }
    SerializeStructVariant { serialize_field(&'static str) }
}
