//! Structs that declare each field together with its first value.

/// Declares a struct and how it starts at once: each field has its first value behind its type. Values may use the
/// arguments of the constructor and what its body prepares; a struct without a constructor has these values by
/// [`Default`].
///
/// ```
/// tributary_core::declared! {
///     /// The settings of a timer.
///     pub struct Settings {
///         /// Maximum attempts.
///         pub attempts: u32 = 3,
///     }
/// }
/// tributary_core::declared! {
///     /// A timer.
///     pub struct Timer {
///         left: u32 = left,
///         expired: Vec<u64> = Vec::new(),
///         settings: Settings = settings,
///     }
///     /// A timer that has not expired yet.
///     pub fn new(settings: Settings) {
///         let left = settings.attempts;
///     }
/// }
/// let timer = Timer::new(Settings::default());
/// assert_eq!((timer.left, timer.expired.len(), timer.settings.attempts), (3, 0, 3));
/// ```
#[macro_export]
macro_rules! declared {
    (
        $(#[$meta:meta])* $vis:vis struct $type:ident $(<$($generic:ident),+>)? {
            $($(#[$field_meta:meta])* $field_vis:vis $field:ident: $of:ty = $value:expr,)*
        }
    ) => {
        $(#[$meta])*
        $vis struct $type $(<$($generic),+>)? { $($(#[$field_meta])* $field_vis $field: $of,)* }
        impl $(<$($generic),+>)? Default for $type $(<$($generic),+>)? {
            fn default() -> Self {
                $type { $($field: $value,)* }
            }
        }
    };
    (
        $(#[$meta:meta])* $vis:vis struct $type:ident $(<$($generic:ident),+>)? {
            $($(#[$field_meta:meta])* $field_vis:vis $field:ident: $of:ty = $value:expr,)*
        }
        $(#[$new_meta:meta])* $new_vis:vis fn $new:ident($($argument:ident: $argument_of:ty),*) { $($prepared:tt)* }
    ) => {
        $(#[$meta])*
        $vis struct $type $(<$($generic),+>)? { $($(#[$field_meta])* $field_vis $field: $of,)* }
        impl $(<$($generic),+>)? $type $(<$($generic),+>)? {
            $(#[$new_meta])*
            $new_vis fn $new($($argument: $argument_of),*) -> Self {
                $($prepared)*
                $type { $($field: $value,)* }
            }
        }
    };
}
